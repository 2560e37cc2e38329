/**
 * Paces the admission of new streams. After a restart thousands of proxies reconnect at once, and each costs time of
 * the main thread (parsing, views) in which nothing else is served. So a few are admitted in each turn of the event
 * loop, in order of arrival. Streams that would wait long are refused at once: they reconnect after their backoff, or
 * to another replica.
 */
import { CtlError } from '../../core/errors.ts';
import { PerAddressLimiter } from '../../grpc/index.ts';

/** Streams admitted in a turn of the event loop: at 0.3 ms each a turn takes about 5 ms. */
const PER_TURN = 16;

/**
 * Most streams that wait or are being made ready; no single address gets all of them. Twice the size of the largest
 * mesh that one process is designed for.
 */
export const MAX_ENTERING = 10_000;

/** Admits the streams of one client address. */
export interface StreamAdmission {
  /**
   * Resolves when the stream is admitted, with a function to call when it is ready or has given up. Rejects with
   * CtlError resource_exhausted when there are too many.
   */
  enter(): Promise<() => void>;
}

export class Admission {
  readonly #limiter: PerAddressLimiter;
  readonly #waiting: (() => void)[] = [];
  #scheduled = false;

  constructor(limit = MAX_ENTERING) {
    this.#limiter = new PerAddressLimiter(limit);
  }

  of(address: string): StreamAdmission {
    return { enter: () => this.#enter(address) };
  }

  #enter(address: string): Promise<() => void> {
    const leave = this.#limiter.enter(address);
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
