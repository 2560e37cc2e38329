/** The bench's side of the process of hostile callers. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Owner } from '../../test/harness/owner.ts';
import type { Assignment } from './scenario.ts';

/** Starts the process and waits until its callers have begun. It ends with its owner, or when the bench dies. */
export async function startCallers(owner: Owner, assignment: Assignment): Promise<void> {
  const child = fork(join(import.meta.dirname, 'callers-main.ts'), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const exited = once(child, 'exit');
  owner.after(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  child.send(assignment);
  const ended = exited.then(() => {
    throw new Error(`the callers of "${assignment.scenario}" have ended`);
  });
  await Promise.race([once(child, 'message'), ended]);
  // The end of the process ends the scenario only if it comes before the beginning.
  ended.catch(() => {});
}
