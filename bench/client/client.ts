/** The bench's side of the process of simulated proxies. */
import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import type { Owner } from '../../test/harness/owner.ts';
import type { Answers, Command, Reply } from './messages.ts';

/** Time beyond a command's own limit after which the process counts as stuck, ms. */
const GRACE_MS = 60_000;

interface Pending {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

export class Client {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #pending = new Map<number, Pending>();
  #calls = 0;

  constructor(child: ChildProcess) {
    this.#child = child;
    this.pid = child.pid ?? 0;
    child.on('message', (reply: Reply) => this.#answered(reply));
    child.on('error', (error) => this.#failAll(error));
    child.on('exit', (code, signal) => this.#failAll(new Error(`the proxies' process ended: ${signal ?? code}`)));
  }

  /** Runs the command in that process; rejects when it fails or the process is stuck. */
  do<C extends Command>(command: C): Promise<Answers[C['op']]> {
    const call = ++this.#calls;
    const limit = ('timeoutMs' in command ? command.timeoutMs : 0) + GRACE_MS;
    return new Promise<Answers[C['op']]>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(call);
        reject(new Error(`the proxies' process does not respond to "${command.op}"`));
      }, limit);
      this.#pending.set(call, { resolve: (answer) => resolve(answer as Answers[C['op']]), reject, timer });
      this.#child.send({ call, command });
    });
  }

  #answered({ call, answer, error }: Reply): void {
    const pending = this.#pending.get(call);
    if (pending === undefined) return;
    this.#pending.delete(call);
    clearTimeout(pending.timer);
    if (error === undefined) pending.resolve(answer);
    else pending.reject(new Error(error));
  }

  #failAll(error: Error): void {
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(error);
    }
    this.#pending.clear();
  }
}

/** Starts the process. It ends with its owner, or when the bench dies. */
export function startClient(owner: Owner): Client {
  const child = fork(join(import.meta.dirname, 'main.ts'), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  owner.after(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  return new Client(child);
}
