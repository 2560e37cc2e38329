/** How many connections proxies may hold. */
import { openFilesLimit, readProcessLimits } from '../core/open-files.ts';

/**
 * Part of the file descriptors that gRPC connections may have. Of the rest, each HTTP server has its part (src/http),
 * and files, watches and outgoing requests have what is left.
 */
const PART = 0.8;

/** A proxy has one connection with a stream, and now and then one for a certificate. */
const PER_STREAM = 2;

/** However few streams are allowed, so many connections do no harm. */
const FEWEST = 1000;

/**
 * How many connections proxies may hold: no more than file descriptors last for, nor than so many streams need.
 * @param readLimits the text of /proc/self/limits
 */
export function maxConnections(maxStreams: number, readLimits = readProcessLimits): number {
  return Math.min(Math.max(FEWEST, PER_STREAM * maxStreams), Math.floor(PART * openFilesLimit(readLimits)));
}
