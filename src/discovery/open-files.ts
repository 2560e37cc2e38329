/** What the operating system lets this process hold open. */
import { readFileSync } from 'node:fs';

/** Part of the file descriptors that connections may have; the rest is for files, watches and the other addresses. */
const PART = 0.8;

/** A proxy has one connection with a stream, and now and then one for a certificate. */
const PER_STREAM = 2;

/** However few streams are allowed, so many connections do no harm. */
const FEWEST = 1000;

/**
 * How many connections proxies may hold: no more than file descriptors last for, nor than so many streams need.
 * @param readLimits the text of /proc/self/limits
 */
export function maxConnections(
  maxStreams: number,
  readLimits = () => readFileSync('/proc/self/limits', 'utf8'),
): number {
  return Math.min(Math.max(FEWEST, PER_STREAM * maxStreams), Math.floor(PART * openFiles(readLimits)));
}

function openFiles(readLimits: () => string): number {
  try {
    // The first number is what is in force, the second how far it may be raised.
    const [, soft] = /^Max open files +(\d+|unlimited) /m.exec(readLimits()) ?? [];
    return soft === undefined || soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    // Not on this system.
    return Number.POSITIVE_INFINITY;
  }
}
