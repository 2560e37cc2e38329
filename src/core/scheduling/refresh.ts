/**
 * A value that is loaded in the background repeatedly, never while a request waits for it: certificates, keys and
 * bundles of other servers, the content of files. The last good value stays in use while loads fail.
 */
import { backoff } from '../backoff.ts';
import type { Clock, Timer } from '../clock.ts';
import { type CtlError, toCtlError } from '../errors.ts';
import { CLOCK_CHECK_MS } from '../wall-clock.ts';

export interface Loaded<T> {
  readonly value: T;
  /** The time until the next load, ms. */
  readonly refreshMs: number;
}

export interface RefreshOptions<T> {
  load(signal: AbortSignal): Promise<Loaded<T>>;
  /** An error that it throws counts as a failure of the load. */
  onValue?(value: T): void;
  /** Called once for each new problem, not for its repetitions. */
  onProblem?(error: CtlError): void;
  /** Called for each failure. */
  onFailure?(error: CtlError): void;
  /** The wall clock, if the values expire. */
  readonly clock: Clock;
  /** 0 ≤ x < 1. Delays vary by a tenth in both directions, so that replicas do not load together; absent: they do not. */
  readonly random?: () => number;
  /** Minimum interval of loads that callers trigger, ms. */
  readonly cooldownMs?: number;
  /** The delay after this many failures in a row, ms; absent: 1 s, 2 s, … 5 minutes. */
  readonly retryMs?: (failures: number) => number;
  /**
   * After the clock was set back by more than this, ms, the value is loaded again within a minute: for peers with the
   * correct time, a certificate issued earlier would not be valid yet.
   */
  readonly setBackMs?: number;
}

const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 5 * 60_000;
const JITTER = 0.1;

/** The default delays after failures, with another maximum, ms. `random` varies them afterwards. */
export function retryUpTo(maxMs: number): (failures: number) => number {
  return (failures) => backoff(failures, FIRST_RETRY_MS, maxMs, () => 0);
}

export class Refresh<T> {
  readonly #options: RefreshOptions<T>;
  readonly #retryMs: (failures: number) => number;
  readonly #ending = new AbortController();
  #value: T | undefined;
  #problem: CtlError | undefined;
  #failures = 0;
  #timer: Timer | undefined;
  /** The latest load: the result of an earlier one that completes later is not used. */
  #loading: Promise<void> | undefined;
  #attempt = 0;
  #triggeredAt = Number.NEGATIVE_INFINITY;

  constructor(options: RefreshOptions<T>) {
    this.#options = options;
    this.#retryMs = options.retryMs ?? retryUpTo(MAX_RETRY_MS);
  }

  /** The last good value; undefined before the first. */
  get value(): T | undefined {
    return this.#value;
  }

  /**
   * Loads at once, even when a load is in progress, and repeatedly from then on. Resolves after the attempt, successful
   * or not.
   */
  start(): Promise<void> {
    this.#timer?.cancel();
    const loading = this.#load(++this.#attempt).finally(() => {
      if (this.#loading === loading) this.#loading = undefined;
    });
    this.#loading = loading;
    return loading;
  }

  /** Starts with a value that has been loaded already. */
  startWith({ value, refreshMs }: Loaded<T>): void {
    this.#value = value;
    this.#wait(refreshMs, this.#options.setBackMs);
  }

  /**
   * For callers that know that the value is outdated: resolves after a load, or at once if a caller triggered one
   * recently.
   */
  loadNow(): Promise<void> {
    if (this.#loading !== undefined) return this.#loading;
    const { clock, cooldownMs = 0 } = this.#options;
    const now = clock.now();
    if (now - this.#triggeredAt < cooldownMs) return Promise.resolve();
    this.#triggeredAt = now;
    return this.start();
  }

  /** Resolves when no load is in progress; the result of a load in progress is not used. */
  close(): Promise<void> {
    this.#ending.abort();
    this.#timer?.cancel();
    return this.#loading ?? Promise.resolve();
  }

  async #load(attempt: number): Promise<void> {
    const { load, onValue, onProblem, onFailure, setBackMs } = this.#options;
    const { signal } = this.#ending;
    try {
      const { value, refreshMs } = await load(signal);
      if (signal.aborted || attempt !== this.#attempt) return;
      this.#value = value;
      onValue?.(value);
      this.#problem = undefined;
      this.#failures = 0;
      this.#wait(refreshMs, setBackMs);
    } catch (error) {
      if (signal.aborted || attempt !== this.#attempt) return;
      const problem = toCtlError(error);
      onFailure?.(problem);
      if (problem.message !== this.#problem?.message) onProblem?.(problem);
      this.#problem = problem;
      this.#wait(this.#retryMs(++this.#failures));
    }
  }

  #wait(ms: number, setBackMs?: number): void {
    const { clock, random } = this.#options;
    const delay = random === undefined ? ms : ms * (1 + JITTER * (2 * random() - 1));
    const from = clock.now();
    const check = (): void => {
      const left = from + delay - clock.now();
      if (left <= 0 || left > delay + (setBackMs ?? Number.POSITIVE_INFINITY)) void this.start();
      else this.#timer = clock.setTimer(Math.min(left, CLOCK_CHECK_MS), check);
    };
    if (setBackMs === undefined) this.#timer = clock.setTimer(delay, () => void this.start());
    else check();
  }
}
