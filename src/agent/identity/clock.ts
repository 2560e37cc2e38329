/**
 * Time, as the identity of a workload needs it: certificates and tokens end by the wall clock. Passed in, so that tests
 * need not wait.
 */
import { startWallTimer } from '../../core/wall-timer.ts';

export interface Clock {
  /** Epoch ms. */
  now(): number;
  /** Runs once after `ms`, or as soon as the calendar says that they have passed; does not keep the process alive. */
  setTimer(ms: number, run: () => void): { cancel(): void };
}

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimer: (ms, run) => ({ cancel: startWallTimer(ms, run) }),
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
