/**
 * A value that is fetched in the background repeatedly, never while a request waits for it. The last good value stays
 * in use; failures are retried with backoff, and each is reported once.
 */
import { backoff } from '../core/backoff.ts';
import type { Timer } from '../core/clock.ts';
import { type CtlError, toCtlError } from '../core/errors.ts';
import type { WallClock } from '../core/wall-clock.ts';

export interface Loaded<T> {
  readonly value: T;
  /** The time until the next load, ms. */
  readonly refreshMs: number;
}

export interface RefreshOptions<T> {
  load(signal: AbortSignal): Promise<Loaded<T>>;
  onValue?(value: T): void;
  /** Called once for each new problem, not for its repetitions. */
  onProblem(error: CtlError): void;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Minimum interval of loads that callers trigger, ms. */
  readonly cooldownMs: number;
  /** Maximum interval of attempts after failures, ms; default 5 minutes. */
  readonly maxRetryMs?: number;
}

const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 5 * 60_000;
/** Delays vary by this part in both directions, so that replicas do not load at the same time. */
const JITTER = 0.1;
/** For backoff: JITTER is applied to all delays afterwards. */
const NO_JITTER = (): number => 0;

export class Refresh<T> {
  readonly #options: RefreshOptions<T>;
  readonly #ending = new AbortController();
  #value: T | undefined;
  #problem: CtlError | undefined;
  #failures = 0;
  #timer: Timer | undefined;
  #loading: Promise<void> | undefined;
  #triggeredAt = Number.NEGATIVE_INFINITY;

  constructor(options: RefreshOptions<T>) {
    this.#options = options;
  }

  /** The last good value; undefined before the first. */
  get value(): T | undefined {
    return this.#value;
  }

  /** Loads for the first time, and repeatedly from then on. Resolves after the first attempt, successful or not. */
  start(): Promise<void> {
    return this.#load();
  }

  /**
   * For a caller who knows that the value is outdated: resolves after a load, or at once when a caller triggered one
   * recently.
   */
  loadNow(): Promise<void> {
    if (this.#loading !== undefined) return this.#loading;
    const now = this.#options.clock.now();
    if (now - this.#triggeredAt < this.#options.cooldownMs) return Promise.resolve();
    this.#triggeredAt = now;
    return this.#load();
  }

  #load(): Promise<void> {
    this.#timer?.cancel();
    this.#loading = this.#once().then((delayMs) => {
      this.#loading = undefined;
      if (this.#ending.signal.aborted) return;
      const spread = 1 + JITTER * (2 * this.#options.random() - 1);
      this.#timer = this.#options.clock.setTimer(delayMs * spread, () => void this.#load());
    });
    return this.#loading;
  }

  /** Loads once. Returns the delay until the next load, ms. */
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
      return backoff(this.#failures, FIRST_RETRY_MS, this.#options.maxRetryMs ?? MAX_RETRY_MS, NO_JITTER);
    }
  }

  close(): void {
    this.#ending.abort();
    this.#timer?.cancel();
  }
}
