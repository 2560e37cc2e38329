/**
 * How fast the API server of another cluster is read. Decoding what it sends takes the time of all proxies' control
 * plane, and a server that is not trusted could send objects without end. Reading pauses instead of dropping anything:
 * the rest waits at the server.
 */
import type { Clock } from '../../core/clock.ts';
import { TokenBucket } from '../../core/fairness/token-bucket.ts';
import type { Log } from '../../core/log.ts';

/** Objects a second on average: decoding them takes about a tenth of a CPU. */
const OBJECTS_PER_SECOND = 1000;
/** An object of more bytes counts as several. */
const BYTES_PER_OBJECT = 4096;
/** Objects that are read without a pause, at least: what is listed at start. */
const MIN_BURST = 20_000;
/** Bytes of memory for which one more object may be read without a pause: about what a small one uses. */
const MEMORY_PER_OBJECT = 2048;
/** A server that was not paused for as long as this, ms, is not too fast any more: the next pause is logged again. */
const CALM_MS = 60_000;

/**
 * How long reading pauses after so many objects and bytes, ms.
 * @param maxBytes the memory that the objects may use: as many as fit are read without a pause
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
