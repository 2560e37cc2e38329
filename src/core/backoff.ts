/** How long to wait before something that failed is tried again. */

/** Part of a delay by which it is made shorter at random, so that what failed together is not repeated together. */
const JITTER = 0.2;

/**
 * The delay after this many failures in a row (1, 2, …): `baseMs`, doubled with each failure, never more than `maxMs`,
 * less up to a fifth by `random` (0 ≤ x < 1).
 */
export function backoff(failures: number, baseMs: number, maxMs: number, random: () => number): number {
  const doubled = baseMs * 2 ** Math.min(failures - 1, 52);
  return Math.min(doubled, maxMs) * (1 - JITTER * random());
}
