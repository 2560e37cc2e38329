/** The limit of connections of proxies. */
import { openFilesLimit, readProcessLimits } from '../../core/process/open-files.ts';

/**
 * The share of file descriptors for gRPC connections. Each HTTP server has a share of its own (src/http); the rest is
 * for files, watches and outgoing requests.
 */
const PART = 0.8;

/** A proxy has one connection with its stream, and sometimes one for a certificate. */
const PER_STREAM = 2;

/** The lowest limit, for small numbers of streams. */
const FEWEST = 1000;

/**
 * The limit of connections: as many as the file descriptors allow, and not more than the streams need.
 * @param readLimits the text of /proc/self/limits
 */
export function maxConnections(maxStreams: number, readLimits = readProcessLimits): number {
  return Math.min(Math.max(FEWEST, PER_STREAM * maxStreams), Math.floor(PART * openFilesLimit(readLimits)));
}
