/**
 * Brings the objects of keys into their desired state, and keeps them there:
 *
 *   informers, desired state ──keys──▶ queue ──reconcile(key)──▶ writes, limited in rate ──▶ API server
 *
 * A key is reconciled once at a time, and again after a failure, with a delay that grows. Writes of all keys share a
 * budget. If another writer keeps undoing a write, the write is repeated a few times without delay, and then rarely.
 * While the API server takes no writes of a group of keys, that group waits; when a lost connection is restored, keys
 * that failed because of it are retried at once.
 */
import { createHash } from 'node:crypto';
import { backoff } from '../../core/backoff.ts';
import { sleep } from '../../core/clock.ts';
import { TokenBucket } from '../../core/fairness/token-bucket.ts';
import { type Outcome, WorkQueue } from '../../core/scheduling/work-queue.ts';
import { ApiError, isLost } from '../api-error.ts';
import type { Connection } from '../connection.ts';
import { isRefusal } from '../failures.ts';

/** The rate of writes per second, and the burst. */
interface Rate {
  readonly rate: number;
  readonly burst: number;
}

export interface ControllerOptions {
  readonly connection: Pick<Connection, 'clock' | 'random' | 'observe'>;
  /**
   * Reconciles the object of a key with the newest state. Resolves with a number to reconcile the key again after this
   * many milliseconds. Rejects on failure.
   */
  readonly reconcile: (key: string, signal: AbortSignal) => Promise<Outcome>;
  /** Number of keys that are reconciled at the same time. */
  readonly concurrency: number;
  /** The rate of writes of all keys, or a bucket that controllers share. */
  readonly budget: Rate | TokenBucket;
  /** Called when `reconcile` has rejected, except by a lost connection, which the connection reports. */
  readonly onFailure: (key: string, error: unknown) => void;
  /** Whether a failure concerns its key alone; default: see `isRefusal`. */
  readonly isOfKey?: (error: unknown) => boolean;
  /** The keys that wait together after a failure that concerns more than one; default: all. */
  readonly groupOf?: (key: string) => string;
  /** The keys of a lane are served in turn with those of other lanes, such as namespaces; default: all in one lane. */
  readonly laneOf?: (key: string) => string;
}

/** Limits repeated writes of the same content to an object. Rare repetitions are not a conflict with another writer. */
const REPAIRS: Rate = { rate: 1 / 30, burst: 5 };
/** Delay between attempts while the API server accepts no writes of a group, ms. */
const PAUSE_BASE_MS = 1_000;
const PAUSE_MAX_MS = 60_000;

/** An object that this controller has written. */
interface Repaired {
  /** The digest of the content that was written last. */
  readonly digest: string;
  /** Limits how often that content may be written. */
  readonly bucket: TokenBucket;
}

export class Controller {
  readonly #options: ControllerOptions;
  readonly #queue: WorkQueue;
  readonly #budget: TokenBucket;
  /** What was written last to each object of each key, and the limit of its repetitions. */
  readonly #repairs = new Map<string, Map<string, Repaired>>();
  /** Keys that wait for a repetition. */
  readonly #repairing = new Set<string>();
  /** Keys that were added since they were last reconciled. */
  readonly #added = new Set<string>();
  /** Groups that cannot be written at present. */
  readonly #pauses = new Map<string, { readonly times: number; readonly until: number }>();
  /** Keys that failed because the connection was lost. */
  readonly #lost = new Set<string>();
  readonly #ending = new AbortController();
  readonly #unobserve: () => void;

  constructor(options: ControllerOptions) {
    this.#options = options;
    const { connection, concurrency, budget, laneOf } = options;
    const { clock, random } = connection;
    this.#queue = new WorkQueue({ work: (key) => this.#work(key), concurrency, laneOf, clock, random });
    this.#budget = budget instanceof TokenBucket ? budget : new TokenBucket({ ...budget, now: clock.now });
    this.#unobserve = connection.observe({ lost: () => {}, reached: () => this.#reached() });
  }

  /** The state of this key may have changed. */
  add(key: string): void {
    // The content may be another one, which need not wait.
    if (this.#repairing.has(key) && this.#queue.retry(key)) return;
    this.#added.add(key);
    this.#queue.add(key);
  }

  addAll(keys: Iterable<string>): void {
    for (const key of keys) this.add(key);
  }

  /** Aborted when the controller is closed. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /**
   * Waits until the budget allows a write, in the order in which writes ask. Rejects when the controller is closed.
   * The queue does not wait instead: it would wake all keys for each write.
   */
  async mayWrite(): Promise<void> {
    const { signal } = this.#ending;
    for (let wait = this.#budget.take(); wait > 0; wait = this.#budget.take()) {
      await sleep(this.#options.connection.clock, wait, signal);
      signal.throwIfAborted();
    }
    signal.throwIfAborted();
  }

  /**
   * Called before content is written. Returns 0, or the milliseconds until the same content may be written again: two
   * programs must not keep overwriting each other's content. Different content may be written at once.
   *
   * @param object the object that is written, if the key has several
   */
  repair(key: string, content: string, object = ''): number {
    const ofKey = this.#repairs.get(key) ?? new Map<string, Repaired>();
    this.#repairs.set(key, ofKey);
    const known = ofKey.get(object);
    const digest = createHash('sha256').update(content).digest('base64');
    if (known?.digest === digest) {
      const wait = known.bucket.take();
      if (wait > 0) this.#repairing.add(key);
      return wait;
    }
    const bucket = new TokenBucket({ ...REPAIRS, now: this.#options.connection.clock.now });
    ofKey.set(object, { digest, bucket });
    return bucket.take();
  }

  /** Called when the object of the key no longer exists or is no longer written. */
  forget(key: string): void {
    this.#repairs.delete(key);
  }

  /** Nothing is written after the promise has resolved. */
  async close(): Promise<void> {
    this.#unobserve();
    this.#ending.abort();
    await this.#queue.close();
  }

  async #work(key: string): Promise<Outcome> {
    const { signal } = this.#ending;
    if (signal.aborted) return 'done';
    this.#repairing.delete(key);
    this.#added.delete(key);
    const group = this.#options.groupOf?.(key) ?? '';
    const wait = (this.#pauses.get(group)?.until ?? 0) - this.#options.connection.clock.now();
    if (wait > 0) return wait;
    try {
      const outcome = await this.#options.reconcile(key, signal);
      if (outcome === 'done') {
        this.#lost.delete(key);
        this.#pauses.delete(group);
      }
      // What was added meanwhile may have another content.
      return this.#repairing.has(key) && this.#added.delete(key) ? 0 : outcome;
    } catch (error) {
      return signal.aborted ? 'done' : this.#failed(key, group, error);
    }
  }

  #failed(key: string, group: string, error: unknown): Outcome {
    this.#repairing.delete(key);
    if (isLost(error)) {
      this.#lost.add(key);
      return 'failed';
    }
    const { onFailure, isOfKey = isRefusal } = this.#options;
    onFailure(key, error);
    if (!isOfKey(error)) this.#pause(group, error);
    return error instanceof ApiError && error.retryAfterMs !== undefined ? error.retryAfterMs : 'failed';
  }

  #pause(group: string, error: unknown): void {
    const { clock, random } = this.#options.connection;
    const before = this.#pauses.get(group);
    // The first of several concurrent requests is used.
    if (before !== undefined && before.until > clock.now()) return;
    const times = (before?.times ?? 0) + 1;
    const asked = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
    const pause = Math.max(Math.min(asked, PAUSE_MAX_MS), backoff(times, PAUSE_BASE_MS, PAUSE_MAX_MS, random));
    this.#pauses.set(group, { times, until: clock.now() + pause });
  }

  #reached(): void {
    const keys = [...this.#lost];
    this.#lost.clear();
    for (const key of keys) this.#queue.retry(key);
  }
}
