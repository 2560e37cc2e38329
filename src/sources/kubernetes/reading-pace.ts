/**
 * Limits how fast the API server of a remote cluster is read. Decoding takes time of the control plane of all proxies,
 * and a server that is not trusted could send an endless number of objects. Nothing is dropped: reading pauses, and the
 * server has to wait.
 */
import type { Clock } from '../../core/clock.ts';
import { TokenBucket } from '../../core/fairness/token-bucket.ts';
import type { Log } from '../../core/log.ts';

/** Objects a second on average: decoding them takes about a tenth of a CPU. */
const OBJECTS_PER_SECOND = 1000;
/** An object of more bytes counts as several. */
const BYTES_PER_OBJECT = 4096;
/** Minimum number of objects that are read without a pause: the lists at start. */
const MIN_BURST = 20_000;
/**
 * For each such amount of memory, another object may be read without a pause: the approximate size of a small object,
 * bytes.
 */
const MEMORY_PER_OBJECT = 2048;
/** If no pause was needed for this long, ms, the next pause is logged again. */
const CALM_MS = 60_000;

/**
 * Returns how long reading pauses after a number of objects and bytes, ms. @param maxBytes the memory that the objects
 * may use: as many objects as fit are read without a pause
 */
export function readingPace(
  maxBytes: number,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): (objects: number, bytes: number) => number {
  const burst = Math.max(MIN_BURST, Math.floor(maxBytes / MEMORY_PER_OBJECT));
  const bucket = new TokenBucket({ rate: OBJECTS_PER_SECOND, burst, now: () => clock.now() });
  let pausedAt = Number.NEGATIVE_INFINITY;
  return (objects, bytes) => {
    const wait = bucket.spend(Math.max(objects, bytes / BYTES_PER_OBJECT));
    if (wait === 0) return 0;
    const now = clock.now();
    if (now - pausedAt > CALM_MS) {
      log.warn(`the API server sends more than ${OBJECTS_PER_SECOND} objects a second; reading is slowed down`);
    }
    pausedAt = now;
    return wait;
  };
}
