/**
 * When views whose generation failed are tried again: with growing delays, until it works. What has failed is
 * remembered by key for longer than the view, so that a proxy that comes back for it does not begin anew.
 */
import { backoff } from '../../core/backoff.ts';
import type { CtlError } from '../../core/errors.ts';
import type { FailingView } from '../types.ts';

/** Delay of the first retry: enough for a worker that died for reasons of its own. */
export const FIRST_RETRY_MS = 250;
/** The longest delay: what fails each time costs a worker thread, and the building of its replica, this often. */
export const MAX_RETRY_MS = 300_000;
/** A change that concerns the view may be what mends it: after it the delay is at most this, from the last failure. */
export const MAX_RETRY_AFTER_CHANGE_MS = 60_000;

/** Failing views that nobody waits for are forgotten beyond this many, the one that failed first before the others. */
const MAX_REMEMBERED = 1024;

export interface RetryOptions {
  /** Monotonic milliseconds. */
  readonly now: () => number;
  readonly later: (ms: number, run: () => void) => { cancel(): void };
  /** 0 ≤ x < 1 */
  readonly random: () => number;
  /** It is time to try the view again, if somebody needs it. */
  readonly onDue: (key: string) => void;
}

interface Entry {
  readonly firstFailureAt: number;
  failures: number;
  error: CtlError;
  failedAt: number;
  delayMs: number;
  /** Set while the view may not be tried. */
  timer: { cancel(): void } | undefined;
}

export class Retries {
  readonly #options: RetryOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: RetryOptions) {
    this.#options = options;
  }

  /** Notes a failed attempt and plans the next. */
  failed(key: string, error: CtlError): FailingView {
    const { now, random } = this.#options;
    const failedAt = now();
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = { firstFailureAt: failedAt, failures: 0, error, failedAt, delayMs: 0, timer: undefined };
      this.#entries.set(key, entry);
      this.#forgetSome();
    }
    entry.failures++;
    entry.error = error;
    entry.failedAt = failedAt;
    entry.delayMs = backoff(entry.failures, FIRST_RETRY_MS, MAX_RETRY_MS, random);
    this.#plan(key, entry);
    return this.#shown(key, entry);
  }

  /** The view was generated. Returns how often it had failed; 0: it had not. */
  succeeded(key: string): number {
    const entry = this.#entries.get(key);
    if (entry === undefined) return 0;
    entry.timer?.cancel();
    this.#entries.delete(key);
    return entry.failures;
  }

  /** Something that the view is made of has changed. */
  changed(key: string): void {
    const entry = this.#entries.get(key);
    if (entry?.timer === undefined || entry.delayMs <= MAX_RETRY_AFTER_CHANGE_MS) return;
    entry.delayMs = MAX_RETRY_AFTER_CHANGE_MS;
    this.#plan(key, entry);
  }

  /** Why the view may not be tried now; undefined when it may. */
  blocked(key: string): CtlError | undefined {
    const entry = this.#entries.get(key);
    return entry?.timer === undefined ? undefined : entry.error;
  }

  /** True when the last attempt has failed. */
  isFailing(key: string): boolean {
    return this.#entries.has(key);
  }

  all(): FailingView[] {
    return [...this.#entries].map(([key, entry]) => this.#shown(key, entry));
  }

  #plan(key: string, entry: Entry): void {
    const { now, later, onDue } = this.#options;
    entry.timer?.cancel();
    entry.timer = later(Math.max(0, entry.failedAt + entry.delayMs - now()), () => {
      entry.timer = undefined;
      onDue(key);
    });
  }

  #shown(view: string, { failures, error, firstFailureAt, failedAt, delayMs, timer }: Entry): FailingView {
    const now = this.#options.now();
    const retryInMs = timer === undefined ? 0 : Math.max(0, Math.round(failedAt + delayMs - now));
    return { view, failures, error: error.oneLine(), failingForMs: Math.round(now - firstFailureAt), retryInMs };
  }

  #forgetSome(): void {
    for (const [key, { timer }] of this.#entries) {
      if (this.#entries.size <= MAX_REMEMBERED) return;
      if (timer === undefined) this.#entries.delete(key);
    }
  }
}
