/** A process of the bench that answers each message with one message. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Owner } from '../../test/harness/owner.ts';

export interface AskedProcess<Command, Result> {
  /** One command at a time. Rejects when the process ends. */
  ask(command: Command): Promise<Result>;
}

/** Starts it. It ends with its owner, or when the bench dies. */
export function startAsked<Command extends object, Result>(owner: Owner, file: string): AskedProcess<Command, Result> {
  const child = fork(file, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const exited = once(child, 'exit');
  const ended = exited.then(([code]) => {
    throw new Error(`${file} has ended with code ${String(code)}`);
  });
  // Callers that wait for it see the error.
  ended.catch(() => {});
  owner.after(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  return {
    async ask(command) {
      const answer = once(child, 'message');
      child.send(command);
      const [message] = (await Promise.race([answer, ended])) as [Result];
      return message;
    },
  };
}
