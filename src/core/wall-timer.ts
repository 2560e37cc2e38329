/**
 * Timers for moments of the calendar. Node's timers count monotonic time: after the clock was set forward, or the
 * machine slept, one of twelve hours still takes twelve hours, and a certificate that it was to renew is long expired.
 */

/** The clocks and the timer that a wall timer is made of. */
export interface TimeSource {
  /** Epoch milliseconds. */
  wallNow(): number;
  /** Monotonic milliseconds. */
  monotonicNow(): number;
  /** Calls `run` after `ms` monotonic milliseconds. Returns how to cancel. */
  after(ms: number, run: () => void): () => void;
}

/** How often the wall clock is read while a timer waits, ms: how late a jump of the clock may be noticed. */
export const CLOCK_CHECK_MS = 60_000;

/** The machine's clocks; the timer does not keep the process alive. */
const machineTime: TimeSource = {
  wallNow: () => Date.now(),
  monotonicNow: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};

/**
 * Calls `run` once, as soon as `ms` have passed by the wall clock or by the monotonic clock, whichever is first: a
 * clock that was set forward makes it early, one that was set back does not make it late. A wait may be longer than the
 * 2^31 ms of a Node timer. Returns how to cancel.
 */
export function startWallTimer(ms: number, run: () => void, time: TimeSource = machineTime): () => void {
  const wallEnd = time.wallNow() + ms;
  const monotonicEnd = time.monotonicNow() + ms;
  let cancel = (): void => {};
  const look = (): void => {
    const left = Math.min(wallEnd - time.wallNow(), monotonicEnd - time.monotonicNow());
    if (left <= 0) run();
    else cancel = time.after(Math.min(left, CLOCK_CHECK_MS), look);
  };
  cancel = time.after(Math.min(Math.max(ms, 0), CLOCK_CHECK_MS), look);
  return () => cancel();
}
