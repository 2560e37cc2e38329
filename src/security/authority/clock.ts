/** Wall-clock time and timers as a parameter: certificates live by the calendar, and tests do not wait for it. */

export interface WallClock {
  /** Epoch milliseconds. */
  now(): number;
  /** Calls `run` after `ms` at the earliest. Returns how to cancel. */
  setTimer(ms: number, run: () => void): () => void;
}

/** Timers of Node hold a 32-bit number of milliseconds; whoever waits longer looks at the clock in between. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The machine's clock; its timers do not keep the process alive. */
export const wallClock: WallClock = {
  now: () => Date.now(),
  setTimer: (ms, run) => {
    const timer = setTimeout(run, Math.min(ms, MAX_TIMER_MS)).unref();
    return () => clearTimeout(timer);
  },
};
