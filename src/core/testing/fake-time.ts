/** Clocks that move when a test says so. */
import assert from 'node:assert/strict';
import { CLOCK_CHECK_MS, type TimeSource } from '../wall-timer.ts';

export interface FakeTime {
  readonly time: TimeSource;
  /** Lets milliseconds pass by both clocks, and runs what becomes due. */
  pass(ms: number): void;
  /** Moves the wall clock alone, as an operator or NTP does. */
  set(ms: number): void;
  /** Timers that wait. */
  waiting(): number;
}

export function fakeTime(start = Date.UTC(2026, 5, 1)): FakeTime {
  let monotonic = 0;
  let offset = start;
  let timers: { at: number; run: () => void }[] = [];
  const time: TimeSource = {
    wallNow: () => monotonic + offset,
    monotonicNow: () => monotonic,
    after(ms, run) {
      assert.ok(ms >= 0 && ms <= CLOCK_CHECK_MS, `a timer of ${ms} ms`);
      const timer = { at: monotonic + ms, run };
      timers.push(timer);
      return () => (timers = timers.filter((each) => each !== timer));
    },
  };
  const pass = (ms: number): void => {
    const until = monotonic + ms;
    for (;;) {
      const [next] = timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      timers = timers.filter((each) => each !== next);
      monotonic = next.at;
      next.run();
    }
    monotonic = until;
  };
  const set = (ms: number): void => {
    offset += ms;
  };
  return { time, pass, set, waiting: () => timers.length };
}
