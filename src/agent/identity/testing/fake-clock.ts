/** A clock that moves only when a test moves it. */
import type { WallClock } from '../../../core/wall-clock.ts';

export interface FakeClock extends WallClock {
  /** Moves the clock and runs expired timers in order; waits for the effects of each. */
  advance(ms: number): Promise<void>;
  /** Remaining delays of the timers, ms. */
  pending(): readonly number[];
}

export function fakeClock(start = Date.now()): FakeClock {
  let now = start;
  const timers = new Set<{ readonly at: number; readonly run: () => void }>();
  const settle = async (): Promise<void> => {
    // Promises settle in microtasks; a round of the event loop lets all of them run.
    for (let round = 0; round < 3; round++) await new Promise((resolve) => setImmediate(resolve));
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
      for (;;) {
        const [next] = [...timers].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        timers.delete(next);
        now = Math.max(now, next.at);
        next.run();
        await settle();
      }
      now = until;
    },
    pending: () => [...timers].map(({ at }) => at - now),
  };
}
