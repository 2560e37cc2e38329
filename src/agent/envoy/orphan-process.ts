/**
 * An agent that was killed leaves its Envoy behind, which serves on and keeps its ports. The next agent of the same
 * folder ends it: a note says which process it was and whose, and the process table whether it is still that one,
 * without its agent.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CtlError } from '../../core/errors.ts';
import type { Logger } from '../../logging/index.ts';

/** A killed process is gone within milliseconds, unless the machine is very busy. */
const GONE_TIMEOUT_MS = 5_000;
const GONE_PERIOD_MS = 10;

const noteIn = (folder: string): string => join(folder, 'envoy.pid');

/** What proc(5) says of a process. */
interface Entry {
  readonly parent: number;
  /** When it was started: with the number it says which process is meant, for numbers are given out again. */
  readonly started: string;
}

/**
 * Writes down who runs here now; at once, because an agent may be killed in the next moment. A folder that cannot be
 * written to has stopped the agent before; whatever else fails costs little.
 */
export function noteEnvoy(folder: string, pid: number): void {
  try {
    const entry = entryIn(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    if (entry === undefined) return;
    writeFileSync(noteIn(folder), `${pid} ${entry.started} ${entry.parent}\n`, { mode: 0o600 });
  } catch {
    // Without a note a killed agent's Envoy has to be ended by hand.
  }
}

/**
 * Ends the Envoy that an agent which is gone has left in the folder, if there is one. Rejects with a CtlError when it
 * will not end.
 */
export async function endOrphanProcess(folder: string, configPath: string, log: Logger): Promise<void> {
  const note = await readFile(noteIn(folder), 'utf8').catch(() => '');
  const [, number = '', started, parent] = /^(\d+) (\d+) (\d+)\n$/.exec(note) ?? [];
  const pid = Number(number);
  const isLeft = async (): Promise<boolean> => {
    const entry = pid > 1 ? await entryOf(pid) : undefined;
    return entry !== undefined && entry.started === started && entry.parent !== Number(parent);
  };
  if (!(await isLeft())) return;
  // After a new start of the machine, numbers and times begin anew.
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  if (!command.split('\0').includes(configPath)) return;
  log.warn('an Envoy whose agent was killed is ended', { pid });
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ESRCH') return;
    throw new CtlError(
      'failed_precondition',
      `the Envoy that a killed agent has left cannot be ended: ${code}`,
      {},
      error,
    );
  }
  const deadline = performance.now() + GONE_TIMEOUT_MS;
  while (await isLeft()) {
    if (performance.now() >= deadline)
      throw new CtlError('unavailable', `the Envoy that a killed agent has left does not end: process ${pid}`);
    await delay(GONE_PERIOD_MS);
  }
}

/** Undefined for a process that has ended, and on a system without proc(5). */
async function entryOf(pid: number): Promise<Entry | undefined> {
  return entryIn(await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''));
}

function entryIn(stat: string): Entry | undefined {
  // The name, in parentheses, may hold anything. The fields behind it begin with the third.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, parent] = fields;
  const started = fields[19];
  if (parent === undefined || started === undefined || state === 'Z') return undefined;
  return { parent: Number(parent), started };
}
