/** A clock that is many times as fast, so that tests of backoff and limits do not wait. */
import type { Clock, Timer } from '../../core/clock.ts';

/** How often this process looks at the time, and how much of it may pass between two looks, ms. */
const [LOOK_MS, MOST_MS] = [2, 4];

/**
 * The time in which this process, servers of the test included, could do something. On a crowded machine a process is
 * not run for as long as hundreds of milliseconds; to a fast clock these would be a timeout of the product.
 */
class ActiveTime {
  #passed = 0;
  #lookedAt = performance.now();
  #looks: NodeJS.Timeout | undefined;

  now(): number {
    this.#looks ??= setInterval(() => this.#look(), LOOK_MS).unref();
    return this.#passed + Math.min(performance.now() - this.#lookedAt, MOST_MS);
  }

  #look(): void {
    const at = performance.now();
    this.#passed += Math.min(at - this.#lookedAt, MOST_MS);
    this.#lookedAt = at;
  }
}

const time = new ActiveTime();

function setTimer(ms: number, run: () => void): Timer {
  const end = time.now() + ms;
  let timer: NodeJS.Timeout;
  const wait = (): void => {
    const left = end - time.now();
    timer = setTimeout(() => (time.now() < end ? wait() : run()), Math.max(left, 0)).unref();
  };
  wait();
  return { cancel: () => clearTimeout(timer) };
}

/** @param factor by which time is faster */
export function fastClock(factor: number): Clock {
  return { now: () => time.now() * factor, setTimer: (ms, run) => setTimer(ms / factor, run) };
}
