/** A clock that moves only when a test moves it. Serves as a monotonic clock and as a wall clock. */
import type { Timer } from '../clock.ts';

export interface FakeClock {
  /** Milliseconds. */
  now(): number;
  setTimer(ms: number, run: () => void): Timer;
  /** Moves the clock and runs expired timers in order; waits for the effects of each. */
  advance(ms: number): Promise<void>;
  /** The same without waiting for effects. */
  pass(ms: number): void;
  /** Moves the clock and runs no timers, as in a process that is busy. */
  hang(ms: number): void;
  /** Remaining delays of the timers, ms. */
  pending(): readonly number[];
}

export interface FakeClockOptions {
  /** The first time, ms; default 0. */
  readonly start?: number;
  /** Whether work that timers have started is in progress: `advance` waits for its end. */
  readonly busy?: () => boolean;
}

/** Rounds of the event loop after a timer, in which promises and callbacks take effect. */
const ROUNDS = 10;

export function fakeClock({ start = 0, busy = () => false }: FakeClockOptions = {}): FakeClock {
  let now = start;
  const timers = new Set<{ readonly at: number; readonly run: () => void }>();
  const settle = async (): Promise<void> => {
    for (let round = 0; round < ROUNDS || busy(); round++) await new Promise<void>((resolve) => setImmediate(resolve));
  };
  /** Runs the first timer that expires until then; false where there is none. */
  const runNext = (until: number): boolean => {
    const [next] = [...timers].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
    if (next === undefined) return false;
    timers.delete(next);
    now = Math.max(now, next.at);
    next.run();
    return true;
  };
  return {
    now: () => now,
    setTimer(ms, run) {
      const timer = { at: now + Math.max(0, ms), run };
      timers.add(timer);
      return { cancel: () => void timers.delete(timer) };
    },
    async advance(ms) {
      const until = now + ms;
      await settle();
      while (runNext(until)) await settle();
      now = until;
    },
    pass(ms) {
      const until = now + ms;
      while (runNext(until));
      now = until;
    },
    hang(ms) {
      now += ms;
    },
    pending: () => [...timers].map(({ at }) => at - now),
  };
}
