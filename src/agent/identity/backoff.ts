/** How long to wait before trying again. */

export interface Backoff {
  /** The delay after one more failure, ms. */
  next(): number;
  reset(): void;
}

/** Without INITIAL_BACKOFF_MSEC; Envoy waits for the first certificate, so the first retry is soon. */
const DEFAULT_INITIAL_MS = 500;
/** A control plane that comes back is noticed within this time; ms. */
export const MAX_BACKOFF_MS = 30_000;

/**
 * Doubles from `initialMs` (not positive: half a second); each delay is somewhere in its upper half, so that not all
 * agents come at once.
 */
export function createBackoff(initialMs: number, random: () => number): Backoff {
  const first = Math.min(initialMs > 0 ? initialMs : DEFAULT_INITIAL_MS, MAX_BACKOFF_MS);
  let step = first;
  return {
    next() {
      const delay = step * (0.5 + random() / 2);
      step = Math.min(step * 2, MAX_BACKOFF_MS);
      return delay;
    },
    reset() {
      step = first;
    },
  };
}
