/** How many connections an HTTP server may hold. */
import { openFilesLimit, readProcessLimits } from '../core/open-files.ts';

/** Part of the file descriptors for one server. A program has up to three; the rest is for what it is there for. */
const PART = 0.03;

/** Scrapers, probes and people are few. */
const MOST = 512;

/** Probes, a scraper and somebody who looks. */
const FEWEST = 8;

/**
 * Connections of one HTTP server at a time.
 * @param readLimits the text of /proc/self/limits
 */
export function httpConnections(readLimits = readProcessLimits): number {
  return Math.max(FEWEST, Math.min(MOST, Math.floor(PART * openFilesLimit(readLimits))));
}
