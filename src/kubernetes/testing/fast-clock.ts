/** The machine's clock, many times as fast, so that tests of backoff and limits do not wait. */
import { type Clock, systemClock } from '../../core/clock.ts';

/** @param factor by which time is faster */
export function fastClock(factor: number): Clock {
  return { now: () => systemClock.now() * factor, setTimer: (ms, run) => systemClock.setTimer(ms / factor, run) };
}
