/**
 * Paces reviews: a few run at a time, the others wait, with the callers taking turns, and each has a time limit. After
 * a restart a thousand proxies present their tokens within a second, and the API server has other clients.
 */
import type { Clock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { createFairQueue, type FairQueue } from '../../core/fairness/fair-queue.ts';
import { networkOf } from '../../grpc/index.ts';

/** Maximum number of reviews that run at a time: the API server responds to one in a few milliseconds. */
export const MAX_RUNNING = 32;

/** Default of `maxWaiting`: as many as streams that may wait for admission. */
const MAX_WAITING = 10_000;

/** Time of a review with its wait, ms. A proxy retries after it; an agent waits 30 s for its certificate. */
export const TIME_LIMIT_MS = 10_000;

type Work<T> = (signal: AbortSignal) => Promise<T>;

/** The address of a peer without its port, as callers are counted: of IPv6 the first 64 bits. */
function laneOf(peer: string): string {
  const [, bracketed] = /^\[(.*)\]:\d+$/.exec(peer) ?? [];
  const [, plain] = /^([^:]+):\d+$/.exec(peer) ?? [];
  return networkOf(bracketed ?? plain ?? peer);
}

export interface ReviewLimits {
  /** Time limit of a review including its wait, ms; default TIME_LIMIT_MS. */
  readonly timeLimitMs?: number;
  /** Maximum number of waiting reviews; one caller can use only a part of it. */
  readonly maxWaiting?: number;
}

export class TokenReviewQueue {
  readonly #clock: Pick<Clock, 'setTimer'>;
  readonly #timeLimitMs: number;
  readonly #waiting: FairQueue<() => Promise<void>>;
  #running = 0;

  constructor(clock: Pick<Clock, 'setTimer'>, { timeLimitMs, maxWaiting }: ReviewLimits = {}) {
    this.#clock = clock;
    this.#timeLimitMs = timeLimitMs ?? TIME_LIMIT_MS;
    this.#waiting = createFairQueue(maxWaiting ?? MAX_WAITING);
  }

  /**
   * Runs the work when the caller's turn comes, and aborts it at the time limit. Rejects with CtlError unavailable
   * then, and when too many wait.
   * @param peer address of the caller, with or without a port
   * @param signal aborts it as well
   */
  run<T>(peer: string, work: Work<T>, signal?: AbortSignal): Promise<T> {
    const outcome = Promise.withResolvers<T>();
    const ending = new AbortController();
    const end = (reason: string): void => {
      outcome.reject(new CtlError('unavailable', reason));
      ending.abort();
    };
    const onAbort = (): void => end('the review is no longer needed');
    const start = async (): Promise<void> => {
      if (ending.signal.aborted) return;
      try {
        outcome.resolve(await work(ending.signal));
      } catch (error) {
        outcome.reject(error);
      }
    };
    if (!this.#waiting.push(laneOf(peer), start)) {
      return Promise.reject(new CtlError('unavailable', 'too many tokens wait for their review, try again later'));
    }
    const limit = this.#timeLimitMs;
    const timer = this.#clock.setTimer(limit, () => end(`it was not reviewed within ${limit / 1000} s`));
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#start();
    return outcome.promise.finally(() => {
      timer.cancel();
      signal?.removeEventListener('abort', onAbort);
    });
  }

  #start(): void {
    for (const start of this.#waiting.take(MAX_RUNNING - this.#running)) {
      this.#running++;
      void start().finally(() => {
        this.#running--;
        this.#start();
      });
    }
  }
}
