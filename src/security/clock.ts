/** Time, as this room needs it: certificates and tokens end by the wall clock. Passed in, so that tests need not wait. */

export interface WallClock {
  /** Epoch ms. */
  now(): number;
  /** Runs once after `ms`; does not keep the process alive. */
  setTimer(ms: number, run: () => void): { cancel(): void };
}

/** Longest delay of a timer of Node; longer ones would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const wallClock: WallClock = {
  now: () => Date.now(),
  setTimer(ms, run) {
    const timer = setTimeout(run, Math.min(Math.max(0, ms), MAX_TIMER_MS)).unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
