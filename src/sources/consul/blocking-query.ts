/**
 * Follows one list of the registry by blocking queries: a request waits at the server until the list has changed
 * (https://developer.hashicorp.com/consul/api-docs/features/blocking).
 */
import { backoff } from '../../core/backoff.ts';
import { type Clock, sleep } from '../../core/clock.ts';
import { CtlError, toCtlError } from '../../core/errors.ts';
import type { Answer, ConsulClient } from './client.ts';
import type { Consistency } from './types.ts';

export interface BlockingQueryOptions {
  readonly client: Pick<ConsulClient, 'get'>;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly consistency: Consistency;
  readonly waitMs: number;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Shortest interval between an answer and the next request, ms: changes in between come together. */
  readonly gapMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  /** The delay after this many failures in a row, ms. */
  readonly retryMs: (failures: number) => number;
  /** Takes an answer, also one without a change. An error counts as a failure of the request. */
  take(answer: Answer): void | Promise<void>;
  /**
   * The index went backwards, and another request confirmed it: the registry has lost or restored its state. Returns
   * whether reading starts again now, with {@link BlockingQuery.reset}; if not, the answer counts as a failure.
   */
  onReset(): boolean;
  /** Called for the first of several failures in a row to reach the registry, which may have restarted. */
  onLost(): void;
  /** Called after each failure and each success. */
  onOutcome(failure: CtlError | undefined): void;
}

/** The next request waits this many times as long as taking the answer took, so that long lists leave time for others. */
const REST = 5;
/** A server that answers without a change before the wait is over is asked less and less often, up to this, ms. */
const MAX_IDLE_GAP_MS = 5000;
/** Waits differ by up to this part, so that those of several programs do not end together. */
const WAIT_JITTER = 0.1;

export class BlockingQuery {
  readonly #options: BlockingQueryOptions;
  readonly #ending = new AbortController();
  /** Aborts the request in progress only. */
  #asking = new AbortController();
  /** The index that is waited on; 0: the next request does not wait. */
  #index = 0;
  /** The last index, which an answer must not be below. */
  #seen = 0;
  #failures = 0;
  /** Answers in a row that came early and had the index that was waited on. */
  #idle = 0;
  #running: Promise<void> = Promise.resolve();

  constructor(options: BlockingQueryOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Forgets the index: the registry's state may be another one. */
  reset(): void {
    this.#index = 0;
    this.#seen = 0;
    this.#asking.abort();
  }

  /**
   * Asks without an index. A registry that has restarted while this query was resting may have reached the same index
   * with another state, and would keep the next request waiting.
   */
  askAnew(): void {
    if (this.#index === 0) return;
    this.#index = 0;
    this.#asking.abort();
  }

  close(): Promise<void> {
    this.#ending.abort();
    this.#asking.abort();
    return this.#running;
  }

  async #run(): Promise<void> {
    const { clock, gapMs, onLost, onOutcome, retryMs } = this.#options;
    const { signal } = this.#ending;
    while (!signal.aborted) {
      this.#asking = new AbortController();
      const asking = this.#asking.signal;
      let restMs: number;
      try {
        const tookMs = await this.#ask(asking);
        if (asking.aborted) continue;
        this.#failures = 0;
        onOutcome(undefined);
        restMs = Math.max(
          backoff(1 + this.#idle, gapMs, MAX_IDLE_GAP_MS, () => 0),
          REST * tookMs,
        );
      } catch (error) {
        if (asking.aborted) continue;
        this.#failures++;
        // The next answer comes at once, so that it is soon known whether the registry is back.
        this.#index = 0;
        const failure = toCtlError(error);
        if (this.#failures === 1 && failure.code === 'unavailable') onLost();
        onOutcome(failure);
        restMs = retryMs(this.#failures);
      }
      await sleep(clock, restMs, signal);
    }
  }

  /** Returns how long taking the answer took, ms. */
  async #ask(signal: AbortSignal): Promise<number> {
    const { client, path, query, waitMs, timeoutMs, maxBytes, clock, random, take, onReset } = this.#options;
    const isWaiting = this.#index > 0;
    const wait = Math.max(1, Math.round(waitMs * (1 - WAIT_JITTER * random())));
    // The server adds up to a 16th of the wait.
    const limitMs = isWaiting ? wait + wait / 16 + timeoutMs : timeoutMs;
    const waiting: Record<string, string> = isWaiting ? { index: String(this.#index), wait: `${wait}ms` } : {};
    // A server that lags behind must not make a lower index look like the loss of the registry's state.
    const consistency =
      this.#failures > 0 && this.#options.consistency === 'stale' ? 'default' : this.#options.consistency;
    const ask = { path, query: { ...query, ...waiting }, timeoutMs: limitMs, maxBytes, consistency, signal };
    const askedAt = clock.now();
    const answer = await client.get(ask);
    if (signal.aborted) return 0;
    if (answer.index < this.#seen) {
      if (this.#failures === 0 || !onReset()) throw backwards(this.#seen, answer.index);
      return 0;
    }
    const startedAt = clock.now();
    this.#idle = isWaiting && answer.index === this.#index && startedAt - askedAt < wait / 2 ? this.#idle + 1 : 0;
    await take(answer);
    if (signal.aborted) return 0;
    this.#seen = answer.index;
    this.#index = answer.index;
    return clock.now() - startedAt;
  }
}

function backwards(from: number, to: number): CtlError {
  return new CtlError('unavailable', `the index went backwards, from ${from} to ${to}`);
}
