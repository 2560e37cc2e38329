/** Wall-clock time and timers as a parameter: certificates live by the calendar, and tests do not wait for it. */
import { startWallTimer } from '../../core/wall-timer.ts';

export interface WallClock {
  /** Epoch milliseconds. */
  now(): number;
  /** Calls `run` after `ms`, or as soon as the calendar says that they have passed. Returns how to cancel. */
  setTimer(ms: number, run: () => void): () => void;
}

/** The machine's clock; its timers follow the calendar and do not keep the process alive. */
export const wallClock: WallClock = {
  now: () => Date.now(),
  setTimer: (ms, run) => startWallTimer(ms, run),
};
