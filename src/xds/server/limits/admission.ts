/**
 * Paces the admission of new streams. After a restart thousands of proxies reconnect at once, and each takes time of
 * the main thread (parsing, views) in which nothing else is served. So a few are admitted in each turn of the event
 * loop, fewer while it is busy with admitted ones (see src/core/fairness/turn-pace.ts). Callers share the time (see
 * src/core/fairness/time-shares.ts): a caller that reconnects repeatedly is admitted after others. Streams that would
 * wait long are refused at once: they reconnect after their backoff, or to another replica.
 */
import { CtlError } from '../../../core/errors.ts';
import { TimeFairQueue } from '../../../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../../../core/fairness/time-shares.ts';
import { TurnPace } from '../../../core/fairness/turn-pace.ts';
import { PerAddressLimiter } from '../../../grpc/index.ts';

/** Streams admitted in a turn of the event loop: it takes about 5 ms for them. */
const PER_TURN = 16;

/** Time of a busy thread for each stream that is admitted, ms. */
const INTERVAL_MS = 8;

/** Time of the main thread that a stream takes until its first response, ms. */
const STREAM_MS = 0.3;

/**
 * Maximum number of streams that wait or are being prepared. A single address gets four fifths: twice the proxies of
 * the largest mesh that one process is designed for.
 */
export const MAX_ENTERING = 25_000;

/** Admits the streams of one caller. */
export interface StreamAdmission {
  /**
   * Resolves when the stream is admitted, with a function to call when it is ready or has given up. Rejects with
   * CtlError resource_exhausted when there are too many.
   */
  enter(): Promise<() => void>;
}

export class Admission {
  readonly #limiter: PerAddressLimiter;
  readonly #shares: TimeShares;
  readonly #waiting: TimeFairQueue<() => void>;
  readonly #pace: TurnPace;
  #scheduled = false;

  /** @param shares the time that callers have used, by other work as well */
  constructor(limit = MAX_ENTERING, shares = new TimeShares(), now = () => performance.now()) {
    this.#limiter = new PerAddressLimiter(limit);
    this.#shares = shares;
    this.#waiting = new TimeFairQueue(shares);
    this.#pace = new TurnPace({ intervalMs: INTERVAL_MS, most: PER_TURN, now, resume: () => this.#admit() });
  }

  of(address: string, caller: string): StreamAdmission {
    return { enter: () => this.#enter(address, caller) };
  }

  #enter(address: string, caller: string): Promise<() => void> {
    const leave = this.#limiter.enter(address);
    if (leave === undefined)
      return Promise.reject(new CtlError('resource_exhausted', 'too many proxies are connecting, try again later'));
    return new Promise((resolve) => {
      this.#waiting.add(caller, () => {
        this.#shares.charge(caller, STREAM_MS);
        resolve(leave);
      });
      this.#schedule();
    });
  }

  /** Data that the stream has sent meanwhile is read first. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#admit();
    });
  }

  #admit(): void {
    while (this.#waiting.size > 0 && this.#pace.admits) {
      this.#waiting.next()?.();
      this.#pace.began();
    }
  }
}
