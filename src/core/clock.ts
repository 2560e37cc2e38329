/** Time and timers as parameters, so that code that waits can be tested without waiting. */

export interface Timer {
  cancel(): void;
}

/** Monotonic time and its timers; for the calendar see `wall-clock.ts`. */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Calls `run` once, after `ms` at the earliest. */
  setTimer(ms: number, run: () => void): Timer;
}

/** The machine's clock (`performance.now()`); its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  setTimer: (ms, run) => {
    const timer = setTimeout(run, ms).unref();
    return { cancel: () => clearTimeout(timer) };
  },
};

/** Resolves after `ms`, or as soon as `signal` aborts. */
export function sleep(clock: Pick<Clock, 'setTimer'>, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const wake = (): void => {
      timer.cancel();
      signal.removeEventListener('abort', wake);
      resolve();
    };
    const timer = clock.setTimer(ms, wake);
    signal.addEventListener('abort', wake);
  });
}
