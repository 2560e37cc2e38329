/** What the operating system lets this process hold open. */
import { readFileSync } from 'node:fs';

/** The text of /proc/self/limits. */
export function readProcessLimits(): string {
  return readFileSync('/proc/self/limits', 'utf8');
}

/** How many files and sockets this process may have open (`ulimit -n`); Infinity where that is not known. */
export function openFilesLimit(readLimits = readProcessLimits): number {
  try {
    // The first number is what is in force, the second how far it may be raised.
    const [, soft] = /^Max open files +(\d+|unlimited) /m.exec(readLimits()) ?? [];
    return soft === undefined || soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    // Not on this system.
    return Number.POSITIVE_INFINITY;
  }
}
