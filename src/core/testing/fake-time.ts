/** A monotonic clock and a wall clock that move only when a test moves them. */
import assert from 'node:assert/strict';
import { CLOCK_CHECK_MS, createWallClock, type WallClock } from '../wall-clock.ts';

export interface FakeTime {
  /** Epoch ms; its timers follow both clocks. */
  readonly clock: WallClock;
  /** Lets milliseconds pass by both clocks, and runs the timers that expire. */
  pass(ms: number): void;
  /** Moves the wall clock alone, as an operator or NTP does. */
  set(ms: number): void;
  /** The number of timers that wait. */
  waiting(): number;
}

export function fakeTime(start = Date.UTC(2026, 5, 1)): FakeTime {
  let monotonic = 0;
  let offset = start;
  let timers: { at: number; run: () => void }[] = [];
  const clock = createWallClock(
    {
      now: () => monotonic,
      setTimer(ms, run) {
        assert.ok(ms >= 0 && ms <= CLOCK_CHECK_MS, `a timer of ${ms} ms`);
        const timer = { at: monotonic + ms, run };
        timers.push(timer);
        return {
          cancel() {
            timers = timers.filter((each) => each !== timer);
          },
        };
      },
    },
    () => monotonic + offset,
  );
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
  return { clock, pass, set, waiting: () => timers.length };
}
