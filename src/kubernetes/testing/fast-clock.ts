/** The machine's clock with timers that fire many times sooner, so that tests of backoff and limits do not wait. */
import { type Clock, systemClock } from '../../core/clock.ts';

/** @param factor by which waits are shorter */
export function fastClock(factor: number): Clock {
  return { now: systemClock.now, setTimer: (ms, run) => systemClock.setTimer(ms / factor, run) };
}
