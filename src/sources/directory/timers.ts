/** The timers of one owner, which end when the owner is closed. */
import type { Clock, Timer } from '../../core/clock.ts';

export class Timers {
  readonly #clock: Clock;
  readonly #pending = new Set<Timer>();
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `run` once after `ms`, unless the timer is cancelled or its owner closed before. */
  after(ms: number, run: () => void): Timer {
    if (this.#closed) return { cancel: () => {} };
    const timer = this.#clock.setTimer(ms, () => {
      this.#pending.delete(timer);
      run();
    });
    this.#pending.add(timer);
    return {
      cancel: () => {
        timer.cancel();
        this.#pending.delete(timer);
      },
    };
  }

  /** Calls `run` every `ms` milliseconds; 0 is never. */
  every(ms: number, run: () => void): void {
    if (ms <= 0) return;
    this.after(ms, () => {
      run();
      this.every(ms, run);
    });
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#pending) timer.cancel();
    this.#pending.clear();
  }
}
