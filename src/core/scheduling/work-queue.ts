/**
 * Processes keys: several at the same time, but each key only once at a time. A failed key is retried with a growing
 * delay. A key that is added while it is processed is processed again. Keys wait in lanes, such as namespaces, which
 * are served in turn: many keys in one lane do not delay the keys of the others.
 */
import { backoff } from '../backoff.ts';
import type { Clock, Timer } from '../clock.ts';

/**
 * `failed`: retried after a growing delay. A number: processed again after this many milliseconds, without a failure.
 */
export type Outcome = 'done' | 'failed' | number;

export interface WorkQueueOptions {
  /** Must not reject. */
  readonly work: (key: string) => Promise<Outcome>;
  /** How many keys are worked on at the same time. */
  readonly concurrency: number;
  /** The lane of a key; default: one lane for all keys. */
  readonly laneOf?: ((key: string) => string) | undefined;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
}

const RETRY_BASE_MS = 500;
const RETRY_MAX_MS = 60_000;

export class WorkQueue {
  readonly #options: WorkQueueOptions;
  /** Keys that can be processed, by lane; the lanes in the order in which they are served. None is empty. */
  readonly #lanes = new Map<string, Set<string>>();
  readonly #running = new Set<string>();
  /** Running keys that were added again. */
  readonly #again = new Set<string>();
  readonly #failures = new Map<string, number>();
  readonly #delayed = new Map<string, Timer>();
  #closed = false;
  #idle = Promise.withResolvers<void>();

  constructor(options: WorkQueueOptions) {
    this.#options = options;
  }

  add(key: string): void {
    if (this.#closed) return;
    // A change does not end the delay after a failure: otherwise a key that changes often would be retried without a
    // delay.
    if (this.#delayed.has(key)) return;
    if (this.#running.has(key)) this.#again.add(key);
    else this.#wait(key);
    this.#pump();
  }

  /** Processes a delayed key at once, as if it had not failed. Returns false for any other key. */
  retry(key: string): boolean {
    const timer = this.#delayed.get(key);
    if (timer === undefined || this.#closed) return false;
    timer.cancel();
    this.#delayed.delete(key);
    this.#failures.delete(key);
    this.#wait(key);
    this.#pump();
    return true;
  }

  /** No work begins after it was called; resolves when none runs. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#lanes.clear();
    this.#again.clear();
    for (const timer of this.#delayed.values()) timer.cancel();
    this.#delayed.clear();
    if (this.#running.size === 0) return;
    await this.#idle.promise;
  }

  #wait(key: string): void {
    const lane = this.#options.laneOf?.(key) ?? '';
    const keys = this.#lanes.get(lane);
    if (keys === undefined) this.#lanes.set(lane, new Set([key]));
    else keys.add(key);
  }

  /** The oldest key of the lane whose turn it is. */
  #next(): string | undefined {
    for (const [lane, keys] of this.#lanes)
      for (const key of keys) {
        keys.delete(key);
        this.#lanes.delete(lane);
        if (keys.size > 0) this.#lanes.set(lane, keys);
        return key;
      }
    return undefined;
  }

  #pump(): void {
    while (this.#running.size < this.#options.concurrency) {
      const key = this.#next();
      if (key === undefined) return;
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
    const isAgain = this.#again.delete(key);
    if (outcome === 'done') {
      this.#failures.delete(key);
      if (isAgain) this.#wait(key);
    } else this.#repeat(key, outcome === 'failed' ? this.#delayAfterFailure(key) : outcome);
    this.#pump();
  }

  #delayAfterFailure(key: string): number {
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    return backoff(failures, RETRY_BASE_MS, RETRY_MAX_MS, this.#options.random);
  }

  #repeat(key: string, delayMs: number): void {
    const timer = this.#options.clock.setTimer(delayMs, () => {
      this.#delayed.delete(key);
      this.#wait(key);
      this.#pump();
    });
    this.#delayed.set(key, timer);
  }
}
