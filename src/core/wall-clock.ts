/**
 * The wall clock, which decides when certificates and tokens expire. Node's timers count monotonic time: when the clock
 * is set forward, or the machine sleeps, a timer of twelve hours still takes twelve hours, and the certificate that it
 * should renew expires before. The timers of this clock follow the wall clock.
 */
import { type Clock, systemClock, type Timer } from './clock.ts';

export interface WallClock {
  /** Epoch milliseconds. */
  now(): number;
  /**
   * Calls `run` once, as soon as `ms` have passed by the wall clock or by the monotonic clock, whichever is first: a
   * clock that is set forward makes it early, one that is set back does not make it late. A wait may be longer than the
   * 2^31 ms of a Node timer.
   */
  setTimer(ms: number, run: () => void): Timer;
}

/** How often the wall clock is read while a timer waits, ms: the maximum delay after the clock was set. */
export const CLOCK_CHECK_MS = 60_000;

/** @param wallNow epoch milliseconds */
export function createWallClock(monotonic: Clock, wallNow: () => number): WallClock {
  return {
    now: wallNow,
    setTimer(ms, run) {
      const wallEnd = wallNow() + ms;
      const monotonicEnd = monotonic.now() + ms;
      const check = (): void => {
        const left = Math.min(wallEnd - wallNow(), monotonicEnd - monotonic.now());
        if (left <= 0) run();
        else timer = monotonic.setTimer(Math.min(left, CLOCK_CHECK_MS), check);
      };
      let timer = monotonic.setTimer(Math.min(Math.max(ms, 0), CLOCK_CHECK_MS), check);
      return { cancel: () => timer.cancel() };
    },
  };
}

/** The machine's wall clock; its timers do not keep the process alive. */
export const wallClock: WallClock = createWallClock(systemClock, () => Date.now());
