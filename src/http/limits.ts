/** Limit of the connections of an HTTP server. */
import { openFilesLimit, readProcessLimits } from '../core/process/open-files.ts';

/** Fraction of the file descriptors for one HTTP server. A program has up to three of them besides its other work. */
const FRACTION = 0.03;

/** Enough for scrapers, probes and people. */
const MAX_CONNECTIONS = 512;

/** Enough for probes, a scraper and one person. */
const MIN_CONNECTIONS = 8;

/**
 * Fraction of the connections whose requests may be handled at the same time. This leaves connections that only wait
 * for their client, one of which can be closed to admit a probe.
 */
const ANSWERED_FRACTION = 0.5;

/** Maximum number of requests that one HTTP server handles at the same time. */
export function answeredRequests(maxConnections = httpConnections()): number {
  return Math.max(1, Math.floor(ANSWERED_FRACTION * maxConnections));
}

/** Maximum number of concurrent connections of one HTTP server. @param readLimits reads /proc/self/limits */
export function httpConnections(readLimits = readProcessLimits): number {
  return Math.max(MIN_CONNECTIONS, Math.min(MAX_CONNECTIONS, Math.floor(FRACTION * openFilesLimit(readLimits))));
}
