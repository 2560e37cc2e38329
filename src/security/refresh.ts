/**
 * A value that is fetched in the background, again and again: never while somebody waits for an answer of ours. What
 * was good stays until something better comes; failures are repeated with backoff and told once each.
 */
import { backoff } from '../core/backoff.ts';
import type { Timer } from '../core/clock.ts';
import { type CtlError, toCtlError } from '../core/errors.ts';
import type { WallClock } from '../core/wall-clock.ts';

export interface Loaded<T> {
  readonly value: T;
  /** When to look again, ms. */
  readonly refreshMs: number;
}

export interface RefreshOptions<T> {
  load(signal: AbortSignal): Promise<Loaded<T>>;
  onValue?(value: T): void;
  /** Called once for each new fault, not for its repetitions. */
  onProblem(error: CtlError): void;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Least time between two loads that callers ask for, ms. */
  readonly cooldownMs: number;
  /** Most time between two attempts after failures, ms; default 5 minutes. */
  readonly lastRetryMs?: number;
}

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 5 * 60_000;
/** Spread to both sides, so that replicas do not ask in step. */
const JITTER = 0.1;
/** All delays are spread alike, by JITTER. */
const NO_JITTER = (): number => 0;

export class Refresh<T> {
  readonly #options: RefreshOptions<T>;
  readonly #ending = new AbortController();
  #value: T | undefined;
  #problem: CtlError | undefined;
  #failures = 0;
  #timer: Timer | undefined;
  #loading: Promise<void> | undefined;
  #hurriedAt = Number.NEGATIVE_INFINITY;

  constructor(options: RefreshOptions<T>) {
    this.#options = options;
  }

  /** The last good value; undefined while there has been none. */
  get value(): T | undefined {
    return this.#value;
  }

  /** Loads for the first time, and from then on by itself. Resolves after the first attempt, however it ended. */
  start(): Promise<void> {
    return this.#load();
  }

  /**
   * For a caller who has seen that the value is out of date: resolves after a load, or at once when callers have had
   * one lately.
   */
  hurry(): Promise<void> {
    if (this.#loading !== undefined) return this.#loading;
    const now = this.#options.clock.now();
    if (now - this.#hurriedAt < this.#options.cooldownMs) return Promise.resolve();
    this.#hurriedAt = now;
    return this.#load();
  }

  #load(): Promise<void> {
    this.#timer?.cancel();
    this.#loading = this.#once().then((againMs) => {
      this.#loading = undefined;
      if (this.#ending.signal.aborted) return;
      const spread = 1 + JITTER * (2 * this.#options.random() - 1);
      this.#timer = this.#options.clock.setTimer(againMs * spread, () => void this.#load());
    });
    return this.#loading;
  }

  /** Gives when to try again, ms. */
  async #once(): Promise<number> {
    try {
      const { value, refreshMs } = await this.#options.load(this.#ending.signal);
      if (this.#ending.signal.aborted) return 0;
      this.#value = value;
      this.#problem = undefined;
      this.#failures = 0;
      this.#options.onValue?.(value);
      return refreshMs;
    } catch (error) {
      if (this.#ending.signal.aborted) return 0;
      const problem = toCtlError(error);
      if (problem.message !== this.#problem?.message) this.#options.onProblem(problem);
      this.#problem = problem;
      this.#failures++;
      return backoff(this.#failures, FIRST_RETRY_MS, this.#options.lastRetryMs ?? LAST_RETRY_MS, NO_JITTER);
    }
  }

  close(): void {
    this.#ending.abort();
    this.#timer?.cancel();
  }
}
