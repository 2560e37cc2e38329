/**
 * Terminates an orphaned Envoy: an agent that was killed leaves its Envoy running, which keeps its ports. The next
 * agent of the same folder terminates it. A note in the folder names the process and its agent, and the process table
 * tells whether it is still that process, without its agent.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CtlError } from '../../core/errors.ts';
import type { Logger } from '../../logging/index.ts';

/** A killed process disappears within milliseconds, unless the machine is very busy. */
const GONE_TIMEOUT_MS = 5_000;
const GONE_PERIOD_MS = 10;

const noteIn = (folder: string): string => join(folder, 'envoy.pid');

/** The fields of proc(5) for a process. */
interface Entry {
  readonly parent: number;
  /** Its start time: together with the id it identifies the process, because ids are reused. */
  readonly started: string;
}

/**
 * Writes the note for a running Envoy; synchronously, because the agent may be killed in the next moment. A folder that
 * is not writable has stopped the agent before; any other failure is tolerable.
 */
export function noteEnvoy(folder: string, pid: number): void {
  try {
    const entry = entryIn(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    if (entry === undefined) return;
    writeFileSync(noteIn(folder), `${pid} ${entry.started} ${entry.parent}\n`, { mode: 0o600 });
  } catch {
    // Without a note the Envoy of a killed agent must be terminated by hand.
  }
}

/**
 * Terminates the Envoy that a dead agent left in the folder, if there is one. Rejects with a CtlError when it does not
 * end.
 */
export async function endOrphanProcess(folder: string, configPath: string, log: Logger): Promise<void> {
  const note = await readFile(noteIn(folder), 'utf8').catch(() => '');
  const [, number = '', started, parent] = /^(\d+) (\d+) (\d+)\n$/.exec(note) ?? [];
  const pid = Number(number);
  const isLeft = async (): Promise<boolean> => {
    const entry = pid > 1 ? await readEntry(pid) : undefined;
    return entry !== undefined && entry.started === started && entry.parent !== Number(parent);
  };
  if (!(await isLeft())) return;
  // After a reboot, process IDs and start times are reused.
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  if (!command.split('\0').includes(configPath)) return;
  log.warn('terminating the Envoy of an agent that was killed', { pid });
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ESRCH') return;
    throw new CtlError(
      'failed_precondition',
      `the Envoy that a killed agent left running cannot be terminated: ${code}`,
      {},
      error,
    );
  }
  const deadline = performance.now() + GONE_TIMEOUT_MS;
  while (await isLeft()) {
    if (performance.now() >= deadline)
      throw new CtlError('unavailable', `the Envoy of an agent that was killed does not terminate: process ${pid}`);
    await delay(GONE_PERIOD_MS);
  }
}

/** The entry of a process; undefined when it has ended, and on a system without proc(5). */
async function readEntry(pid: number): Promise<Entry | undefined> {
  return entryIn(await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''));
}

function entryIn(stat: string): Entry | undefined {
  // The name, in parentheses, may contain anything. The fields after it start with the third.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, parent] = fields;
  const started = fields[19];
  if (parent === undefined || started === undefined || state === 'Z') return undefined;
  return { parent: Number(parent), started };
}
