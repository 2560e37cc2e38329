/**
 * Decides when the generation of failed views is retried: with growing delays, until an attempt succeeds. Failures are
 * kept by key for longer than the view, so that a proxy that reconnects does not reset the delay.
 */
import { backoff } from '../../core/backoff.ts';
import type { CtlError } from '../../core/errors.ts';
import { type ChangedFacts, scopeIdOfView, type View } from '../../generate/index.ts';
import type { ChangeSet } from '../../model/index.ts';
import type { FailingView } from '../types.ts';

/** Delay of the first retry: enough to restart a worker that died for another reason. */
export const FIRST_RETRY_MS = 250;
/** The longest delay: every failed attempt may cost a worker thread and the building of its mesh copy. */
export const MAX_RETRY_MS = 300_000;
/** A change that affects the view may repair it: after a change, the delay is at most this, from the last failure. */
export const MAX_RETRY_AFTER_CHANGE_MS = 60_000;

/** Failing views kept; beyond these, the oldest without a planned retry are dropped. */
const MAX_REMEMBERED = 1024;

export interface RetryOptions {
  /** Monotonic milliseconds. */
  readonly now: () => number;
  readonly later: (ms: number, run: () => void) => { cancel(): void };
  /** 0 ≤ x < 1 */
  readonly random: () => number;
  /** Called when a view may be tried again. */
  readonly onDue: (key: string) => void;
}

interface Entry {
  readonly firstFailureAt: number;
  failures: number;
  error: CtlError;
  failedAt: number;
  delayMs: number;
  /** Set while the view must not be tried. */
  timer: { cancel(): void } | undefined;
}

export class Retries {
  readonly #options: RetryOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: RetryOptions) {
    this.#options = options;
  }

  /** Records a failed attempt and plans the next. */
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

  /** The view was generated. Returns the number of failures before that. */
  succeeded(key: string): number {
    const entry = this.#entries.get(key);
    if (entry === undefined) return 0;
    entry.timer?.cancel();
    this.#entries.delete(key);
    return entry.failures;
  }

  /** Something that the view may depend on has changed. */
  changed(key: string): void {
    const entry = this.#entries.get(key);
    if (entry?.timer === undefined || entry.delayMs <= MAX_RETRY_AFTER_CHANGE_MS) return;
    entry.delayMs = MAX_RETRY_AFTER_CHANGE_MS;
    this.#plan(key, entry);
  }

  /**
   * A snapshot was published. The reads of a failed attempt are unknown: any change that may affect a view may repair
   * it.
   */
  publish(
    { everything, scopes }: ChangedFacts,
    { configs }: Pick<ChangeSet, 'configs'>,
    viewOf: (key: string) => View | undefined,
  ): void {
    for (const key of this.#entries.keys()) {
      const view = viewOf(key);
      if (view && (everything || configs.size > 0 || scopes.has(scopeIdOfView(view)))) this.changed(key);
    }
  }

  /** The last error while the view must not be retried; undefined when it may be. */
  blocked(key: string): CtlError | undefined {
    const entry = this.#entries.get(key);
    return entry?.timer === undefined ? undefined : entry.error;
  }

  /** True when the last attempt failed. */
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
