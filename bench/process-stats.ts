/** CPU time and resident memory of a process, from the kernel (Linux). */
import { readdirSync, readFileSync } from 'node:fs';

/** Ticks of /proc/PID/stat per second: USER_HZ, 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;
const MIB = 1024;

/**
 * CPU seconds of a process and its threads. The scheduler's own sums are in nanoseconds but lack threads that have
 * ended; where they cannot be read, `/proc/PID/stat` counts hundredths of a second.
 */
export function cpuSeconds(pid: number): number {
  return threadSeconds(pid) ?? statSeconds(pid);
}

function threadSeconds(pid: number): number | undefined {
  try {
    const folder = `/proc/${pid}/task`;
    return readdirSync(folder).reduce((sum, task) => {
      const [running = '0'] = readFileSync(`${folder}/${task}/schedstat`, 'utf8').split(' ');
      return sum + Number(running) / 1e9;
    }, 0);
  } catch {
    return undefined;
  }
}

/** The same with threads that have ended, such as workers that were stopped, in whole hundredths of a second. */
export function statSeconds(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The command's name is in parentheses and may contain anything. User and system time are the 14th and 15th field.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

export interface Memory {
  readonly rssMiB: number;
  readonly peakMiB: number;
  /** Private memory, which no file backs. */
  readonly anonMiB: number;
}

export function memoryOf(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
  return { rssMiB: kib('VmRSS') / MIB, peakMiB: kib('VmHWM') / MIB, anonMiB: kib('RssAnon') / MIB };
}
