/** Time and timers as parameters, so that what waits can be tested without waiting. */

export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Calls `run` after `ms` at the earliest. */
  setTimer(ms: number, run: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

/** The machine's clock (`performance.now()`); its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  setTimer: (ms, run) => {
    const timer = setTimeout(run, ms).unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
