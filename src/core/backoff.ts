/** How long to wait before a failed operation is retried. */

/** Default for the part of a delay by which it is shortened at random. */
const JITTER = 0.2;

/**
 * The delay after this many failures in a row (1, 2, …), ms: `baseMs`, doubled with each failure, at most `maxMs`, then
 * shortened at random by up to `jitter` of itself, so that operations that failed together are not retried together.
 *
 * @param random 0 ≤ x < 1
 * @param jitter 0 to 1
 */
export function backoff(
  failures: number,
  baseMs: number,
  maxMs: number,
  random: () => number,
  jitter = JITTER,
): number {
  const doubled = baseMs * 2 ** Math.min(failures - 1, 52);
  return Math.min(doubled, maxMs) * (1 - jitter * random());
}
