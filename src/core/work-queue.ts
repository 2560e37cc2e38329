/**
 * Keys that are worked on: each at most once at a time, some at the same time, and again after a failure, with a delay
 * that grows. A key that is added while it is worked on is worked on once more.
 */
import { backoff } from './backoff.ts';
import type { Clock, Timer } from './clock.ts';

/** `failed`: repeated after a delay that grows. A number: repeated after so many milliseconds, without a failure. */
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

  /** Tries a key that waits after a failure at once, as if it had not failed. */
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
      // A change does not end the delay after a failure: otherwise what changes often would be tried without one.
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
