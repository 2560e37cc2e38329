/**
 * Processes keys: several at the same time, but each key only once at a time. A failed key is retried with a growing
 * delay. A key that is added while it is processed is processed again.
 */
import { backoff } from './backoff.ts';
import type { Clock, Timer } from './clock.ts';

/**
 * `failed`: retried after a growing delay. A number: processed again after this many milliseconds, without a failure.
 */
export type Outcome = 'done' | 'failed' | number;

export interface WorkQueueOptions {
  /** Must not reject. */
  readonly work: (key: string) => Promise<Outcome>;
  /** How many keys are worked on at the same time. */
  readonly concurrency: number;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
}

const RETRY_BASE_MS = 500;
const RETRY_MAX_MS = 60_000;

export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #pending = new Set<string>();
  readonly #running = new Set<string>();
  readonly #failures = new Map<string, number>();
  readonly #delayed = new Map<string, Timer>();
  #closed = false;
  #idle = Promise.withResolvers<void>();

  constructor(options: WorkQueueOptions) {
    this.#options = options;
  }

  add(key: string): void {
    if (this.#closed) return;
    this.#pending.add(key);
    this.#pump();
  }

  /** Retries a failed key at once, as if it had not failed. */
  retry(key: string): void {
    const timer = this.#delayed.get(key);
    if (timer === undefined || this.#closed) return;
    timer.cancel();
    this.#delayed.delete(key);
    this.#failures.delete(key);
    this.#pump();
  }

  /** No work begins after it was called; resolves when none runs. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#pending.clear();
    for (const timer of this.#delayed.values()) timer.cancel();
    this.#delayed.clear();
    if (this.#running.size === 0) return;
    await this.#idle.promise;
  }

  #pump(): void {
    for (const key of this.#pending) {
      if (this.#running.size >= this.#options.concurrency) return;
      // A change does not end the delay after a failure: otherwise a key that changes often would be retried without a
      // delay.
      if (this.#running.has(key) || this.#delayed.has(key)) continue;
      this.#pending.delete(key);
      this.#running.add(key);
      void this.#run(key);
    }
  }

  async #run(key: string): Promise<void> {
    const outcome = await this.#options.work(key);
    this.#running.delete(key);
    if (this.#closed) {
      if (this.#running.size === 0) this.#idle.resolve();
      return;
    }
    if (outcome === 'done') this.#failures.delete(key);
    else this.#repeat(key, outcome === 'failed' ? this.#delayAfterFailure(key) : outcome);
    this.#pump();
  }

  #delayAfterFailure(key: string): number {
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    return backoff(failures, RETRY_BASE_MS, RETRY_MAX_MS, this.#options.random);
  }

  #repeat(key: string, delayMs: number): void {
    this.#pending.add(key);
    const timer = this.#options.clock.setTimer(delayMs, () => {
      this.#delayed.delete(key);
      this.#pump();
    });
    this.#delayed.set(key, timer);
  }
}
