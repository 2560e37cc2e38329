/** Time, as the identity of a workload needs it: certificates and tokens end by the wall clock. Passed in, so that tests need not wait. */

export interface Clock {
  /** Epoch ms. */
  now(): number;
  /** Runs once after `ms`; does not keep the process alive. */
  setTimer(ms: number, run: () => void): { cancel(): void };
}

/** Longest delay of a timer of Node; longer ones would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimer(ms, run) {
    const timer = setTimeout(run, Math.min(Math.max(0, ms), MAX_TIMER_MS)).unref();
    return { cancel: () => clearTimeout(timer) };
  },
};

/** Resolves after `ms`, or as soon as `signal` aborts. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
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
