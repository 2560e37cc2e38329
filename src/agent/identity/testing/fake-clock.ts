/** A clock that moves only when it is told to. */
import type { WallClock } from '../../../core/wall-clock.ts';

export interface FakeClock extends WallClock {
  /** Moves on, running the timers that come due, in order, each followed by what it set in motion. */
  advance(ms: number): Promise<void>;
  /** Delays of the timers that wait, ms from now. */
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
