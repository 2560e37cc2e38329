/**
 * Letting new streams in at a pace. Thousands of proxies reconnect at once after a restart; taking in each costs
 * main-thread time (parsing, views), during which nothing else is served. So a few come in per turn of the event loop,
 * those who came first first, and those that would wait long are turned away at once: they come back after their
 * backoff, or find another replica.
 */
import { CtlError } from '../../core/errors.ts';
import { PerAddressLimiter } from '../../grpc/index.ts';

/** Streams let in per turn of the event loop: at 0.3 ms each a turn stays near 5 ms. */
const PER_TURN = 16;

/**
 * Streams waiting or being made ready, of which no single address gets all. Twice the size of the largest mesh that one
 * process is meant for.
 */
export const MAX_ENTERING = 10_000;

/** Where the streams of one client address come in. */
export interface Entrance {
  /**
   * Resolves when it is the stream's turn, with what it calls when it is ready (or gave up). Rejects with
   * resource_exhausted when there are too many.
   */
  enter(): Promise<() => void>;
}

export class Admission {
  readonly #places: PerAddressLimiter;
  readonly #waiting: (() => void)[] = [];
  #scheduled = false;

  constructor(limit = MAX_ENTERING) {
    this.#places = new PerAddressLimiter(limit);
  }

  of(address: string): Entrance {
    return { enter: () => this.#enter(address) };
  }

  #enter(address: string): Promise<() => void> {
    const leave = this.#places.enter(address);
    if (leave === undefined)
      return Promise.reject(new CtlError('resource_exhausted', 'too many proxies are connecting, try again later'));
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(leave));
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      for (const go of this.#waiting.splice(0, PER_TURN)) go();
      if (this.#waiting.length > 0) this.#schedule();
    });
  }
}
