/** The operating system's limit of open files for this process. */
import { readFileSync } from 'node:fs';

/** The content of /proc/self/limits. */
export function readProcessLimits(): string {
  return readFileSync('/proc/self/limits', 'utf8');
}

/** How many files and sockets this process may have open (`ulimit -n`); Infinity when that is unknown. */
export function openFilesLimit(readLimits = readProcessLimits): number {
  try {
    // The first number is the limit in force, the second the maximum that it may be raised to.
    const [, soft] = /^Max open files +(\d+|unlimited) /m.exec(readLimits()) ?? [];
    return soft === undefined || soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    // This system has no such file.
    return Number.POSITIVE_INFINITY;
  }
}
