/**
 * Writes statuses: compares what each object is to have with what the API server has, and patches the difference. What
 * others change is written again. Writes are bounded in rate, and are made once for all changes that come together.
 */
import { isDeepStrictEqual } from 'node:util';
import { backoff } from '../core/backoff.ts';
import { type Clock, sleep } from '../core/clock.ts';
import { oneLineOf } from '../core/errors.ts';
import { TokenBucket } from '../core/fairness/token-bucket.ts';
import { createFailureLog, type FailureLog, type Log } from '../core/log.ts';
import { type Outcome, WorkQueue } from '../core/work-queue.ts';
import { ApiError, ConnectionError, type KubernetesClient, type KubernetesObject } from '../kubernetes/index.ts';
import type { FollowedObject } from './followed-kind.ts';
import type { DesiredStatus, DesiredStatuses, StatusFields } from './types.ts';

/** The objects of the API server. */
export interface StatusObjects {
  get(key: string): FollowedObject | undefined;
  /** Takes what a write returned. */
  replace(key: string, object: KubernetesObject): void;
}

/** How the statuses of an API are merged. Patches are merge patches (RFC 7386) of `status`; undefined: no change. */
export interface StatusRules {
  /** The desired fields, as the API has them. */
  fieldsOf(desired: DesiredStatus): StatusFields;
  /** @param time of changes, RFC 3339 with seconds */
  patch(object: FollowedObject, desired: StatusFields, time: string): Record<string, unknown> | undefined;
  /**
   * For an object that has no desired status any more.
   * @param written the fields that it had by the last desired status; undefined when that is not known
   */
  removal(object: FollowedObject, written: StatusFields | undefined, time: string): Record<string, unknown> | undefined;
}

export interface StatusWriterOptions {
  readonly client: KubernetesClient;
  readonly objects: StatusObjects;
  readonly rules: StatusRules;
  /** The newest desired statuses. */
  readonly desired: () => DesiredStatuses;
  /** Writes a second, and how many at once (CTL_STATUS_QPS, CTL_STATUS_BURST). */
  readonly qps: number;
  readonly burst: number;
  readonly clock: Clock;
  /** Milliseconds since the epoch, for the times of conditions. */
  readonly now: () => number;
  readonly random: () => number;
  readonly log: Log;
}

/** Requests at the same time. */
const CONCURRENCY = 4;
/** How often the status of one object is repaired in a row without a pause. Two controllers may fight for a field. */
const QUICK_REPAIRS = 5;
const REPAIR_PAUSE_MS = 30_000;
/**
 * Writes of the status of one object: a second, and at once. What it depends on, such as what a proxy accepts, may
 * change all the time; other objects must not wait for it.
 */
const WRITES_OF_OBJECT = { rate: 0.5, burst: 30 };
/** Between attempts to write a kind after failures. */
const PAUSE_BASE_MS = 1_000;
const PAUSE_MAX_MS = 60_000;

/** What was written last to an object, or was found as desired. */
interface Written {
  readonly desired: StatusFields;
  /** The status as the server stored it, with its defaults. */
  readonly stored: StatusFields;
  readonly at: number;
  /** How often the same was written since the desired status changed. */
  readonly times: number;
}

export class StatusWriter {
  readonly #options: StatusWriterOptions;
  readonly #queue: WorkQueue;
  readonly #bucket: TokenBucket;
  readonly #written = new Map<string, Written>();
  readonly #ofObjects = new Map<string, TokenBucket>();
  /** Of kinds, by plural. */
  readonly #failures = new Map<string, FailureLog>();
  /** Of objects whose status is refused, by key. */
  readonly #refused = new Map<string, FailureLog>();
  /** Kinds that cannot be written now. */
  readonly #pauses = new Map<string, { readonly times: number; readonly until: number }>();
  readonly #ending = new AbortController();

  constructor(options: StatusWriterOptions) {
    this.#options = options;
    const { clock, random, qps: rate, burst } = options;
    this.#bucket = new TokenBucket({ rate, burst, now: clock.now });
    this.#queue = new WorkQueue({ work: (key) => this.#work(key), concurrency: CONCURRENCY, clock, random });
  }

  /** The desired status of these keys, or the object in the API server, has changed. */
  changed(keys: Iterable<string>): void {
    for (const key of keys) this.#queue.add(key);
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#queue.close();
  }

  async #work(key: string): Promise<Outcome> {
    const object = this.#options.objects.get(key);
    if (object === undefined) {
      this.#written.delete(key);
      this.#ofObjects.delete(key);
      this.#refused.delete(key);
      return 'done';
    }
    if (this.#change(key, object) === undefined) return 'done';
    const pause = this.#pauseOf(key, object);
    if (pause > 0) return pause;
    const wait = this.#bucketOf(key).take();
    if (wait > 0) return wait;
    if (!(await this.#mayWrite())) return 'done';
    // Both may have changed meanwhile.
    const newest = this.#options.objects.get(key);
    const patch = newest && this.#change(key, newest);
    return newest === undefined || patch === undefined ? 'done' : this.#write(key, newest, patch);
  }

  /** The patch that the object needs; undefined when it has its status. */
  #change(key: string, object: FollowedObject): Record<string, unknown> | undefined {
    const desired = this.#options.desired().get(key);
    const written = this.#written.get(key);
    const time = `${new Date(this.#options.now()).toISOString().slice(0, 19)}Z`;
    const { rules } = this.#options;
    if (desired === undefined) {
      const removal = rules.removal(object, written?.desired, time);
      if (removal === undefined) this.#written.delete(key);
      return removal;
    }
    // The object was deleted and created again since: its status is computed soon.
    if (desired.uid !== undefined && desired.uid !== object.uid) return undefined;
    const status = rules.fieldsOf(desired);
    // The server may have added defaults to what was written.
    const settled =
      written !== undefined &&
      isDeepStrictEqual(written.desired, status) &&
      isDeepStrictEqual(written.stored, object.status);
    if (settled) return undefined;
    const patch = rules.patch(object, status, time);
    // Written by the leader before this one.
    if (patch === undefined && written === undefined)
      this.#written.set(key, { desired: status, stored: object.status, at: -Infinity, times: 0 });
    return patch;
  }

  /** Milliseconds for which the object is not written: its kind cannot be written, or others change it all the time. */
  #pauseOf(key: string, { type }: FollowedObject): number {
    const now = this.#options.clock.now();
    const pause = (this.#pauses.get(type.plural)?.until ?? 0) - now;
    if (pause > 0) return pause;
    const written = this.#written.get(key);
    if (written === undefined || written.times <= QUICK_REPAIRS || !this.#isRepair(key, written)) return 0;
    return written.at + REPAIR_PAUSE_MS - now;
  }

  #bucketOf(key: string): TokenBucket {
    const known = this.#ofObjects.get(key);
    if (known !== undefined) return known;
    const bucket = new TokenBucket({ ...WRITES_OF_OBJECT, now: this.#options.clock.now });
    this.#ofObjects.set(key, bucket);
    return bucket;
  }

  /** Waits until the rate allows a write; false when the writer ends. */
  async #mayWrite(): Promise<boolean> {
    const { signal } = this.#ending;
    for (let wait = this.#bucket.take(); wait > 0 && !signal.aborted; wait = this.#bucket.take())
      await sleep(this.#options.clock, Math.min(wait, REPAIR_PAUSE_MS), signal);
    return !signal.aborted;
  }

  #isRepair(key: string, written: Written): boolean {
    const desired = this.#options.desired().get(key);
    return desired !== undefined && isDeepStrictEqual(this.#options.rules.fieldsOf(desired), written.desired);
  }

  async #write(key: string, object: FollowedObject, status: Record<string, unknown>): Promise<Outcome> {
    const { client, objects, clock, desired, rules } = this.#options;
    const { type, namespace, name, uid, resourceVersion } = object;
    const wanted = desired().get(key);
    try {
      // The version makes it fail with 409 where another controller has written its entries meanwhile.
      const patch = { metadata: { uid, resourceVersion }, status };
      const stored = await client.patch(type, name, patch, {
        namespace,
        type: 'application/merge-patch+json',
        subresource: 'status',
        signal: this.#ending.signal,
      });
      objects.replace(key, stored);
      this.#succeeded(key, type.plural);
      if (wanted === undefined) this.#written.delete(key);
      else this.#remember(key, rules.fieldsOf(wanted), objects.get(key)?.status ?? {}, clock.now());
      return 'done';
    } catch (error) {
      return this.#failed(key, type.plural, error);
    }
  }

  #succeeded(key: string, plural: string): void {
    this.#refused.get(key)?.succeeded();
    this.#refused.delete(key);
    this.#pauses.delete(plural);
    this.#failures.get(plural)?.succeeded();
  }

  #failed(key: string, plural: string, error: unknown): Outcome {
    const { clock, random } = this.#options;
    const status = error instanceof ApiError ? error.status : 0;
    if (status === 404 || this.#ending.signal.aborted) return 'done';
    // Repeated with the version that the watch reports.
    if (status === 409) return 'failed';
    // The status of this object is refused. All else concerns the kind, or the server.
    if (status === 400 || status === 422) {
      this.#refusalLog(key).failed(oneLineOf(error));
      return 'failed';
    }
    const reason = error instanceof ApiError ? `the API server answered ${status} ${error.reason}` : oneLineOf(error);
    if (!(error instanceof ConnectionError && error.lost))
      this.#failureLog(plural).failed(reason, { object: key, answer: oneLineOf(error) });
    const before = this.#pauses.get(plural);
    // Of requests at the same time, the first counts.
    if (before !== undefined && before.until > clock.now()) return 'failed';
    const times = (before?.times ?? 0) + 1;
    const asked = Math.min(error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0, PAUSE_MAX_MS);
    const pause = Math.max(asked, backoff(times, PAUSE_BASE_MS, PAUSE_MAX_MS, random));
    this.#pauses.set(plural, { times, until: clock.now() + pause });
    return 'failed';
  }

  #remember(key: string, desired: StatusFields, stored: StatusFields, at: number): void {
    const before = this.#written.get(key);
    const quiet =
      before === undefined || at - before.at > 2 * REPAIR_PAUSE_MS || !isDeepStrictEqual(before.desired, desired);
    this.#written.set(key, { desired, stored, at, times: quiet ? 1 : before.times + 1 });
  }

  #refusalLog(key: string): FailureLog {
    const known = this.#refused.get(key);
    if (known !== undefined) return known;
    const created = createFailureLog(this.#options.log, `the status of ${key} is refused`, `${key} has its status`);
    this.#refused.set(key, created);
    return created;
  }

  #failureLog(plural: string): FailureLog {
    const known = this.#failures.get(plural);
    if (known !== undefined) return known;
    const created = createFailureLog(
      this.#options.log,
      `a status of ${plural} cannot be written`,
      `statuses of ${plural} are written again`,
    );
    this.#failures.set(plural, created);
    return created;
  }
}
