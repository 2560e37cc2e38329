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

/** The longest delay that a timer of Node.js can have, ms: with a longer one it fires at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/**
 * The machine's clock (`performance.now()`); its timers do not keep the process alive.
 *
 * Timers of Node.js count whole milliseconds and may fire up to 1 ms early by this clock. Code that then finds that its
 * time has not come would wait for another event, which may never come: such a timer waits for the rest.
 */
export const systemClock: Clock = {
  now: () => performance.now(),
  setTimer: (ms, run) => {
    const due = performance.now() + ms;
    const wait = (delay: number): NodeJS.Timeout => setTimeout(fire, Math.min(delay, MAX_DELAY_MS)).unref();
    const fire = (): void => {
      const left = due - performance.now();
      if (left > 0) timer = wait(left);
      else run();
    };
    let timer = wait(ms);
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
