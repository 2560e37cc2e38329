/**
 * Writes statuses: compares the desired status of each object with the status in the API server, and patches the
 * difference. Changes by others are reverted. The rate of writes is limited, namespaces are served in turn, and changes
 * that arrive together are written once.
 */
import { isDeepStrictEqual } from 'node:util';
import { oneLineOf } from '../core/errors.ts';
import { TokenBucket } from '../core/fairness/token-bucket.ts';
import { createFailureLog, type FailureLog, type Log } from '../core/log.ts';
import type { Outcome } from '../core/scheduling/work-queue.ts';
import { ApiError, Controller, type KubernetesClient, type KubernetesObject } from '../kubernetes/index.ts';
import type { StatusObject } from './kind-objects.ts';
import type { StatusFields, WantedStatus, WantedStatuses } from './types.ts';

export interface StatusObjects {
  get(key: string): StatusObject | undefined;
  /** Sends a write of an object, and keeps the object that the server returns. */
  write(object: StatusObject, send: () => Promise<KubernetesObject>): Promise<void>;
}

/**
 * How the statuses of an API are merged. Patches are merge patches (RFC 7386) of `status`; undefined means no change.
 */
export interface StatusRules {
  /** The desired fields in the form of the API. */
  fieldsOf(desired: WantedStatus): StatusFields;
  /** @param time transition time of changed conditions, RFC 3339 with seconds */
  patch(object: StatusObject, desired: StatusFields, time: string): Record<string, unknown> | undefined;
  /**
   * For an object that has no desired status any more.
   * @param written the fields that the last desired status had; undefined if that is not known
   */
  removal(object: StatusObject, written: StatusFields | undefined, time: string): Record<string, unknown> | undefined;
}

export interface StatusWriterOptions {
  readonly client: KubernetesClient;
  readonly objects: StatusObjects;
  readonly rules: StatusRules;
  readonly desired: () => WantedStatuses;
  /** Limits the writes of this writer and of others. */
  readonly budget: TokenBucket;
  /** Milliseconds since the epoch, for the times of conditions. */
  readonly now: () => number;
  readonly log: Log;
}

/** Maximum number of concurrent requests. */
const CONCURRENCY = 4;
/**
 * Limit of the status writes of one object: per second, and in a burst. The inputs of a status, such as what a proxy
 * accepts, may change all the time; other objects must not wait because of that.
 */
const WRITES_OF_OBJECT = { rate: 0.5, burst: 30 };
/** HTTP statuses of failures that concern one object only; all others concern its kind or the server. */
const OF_OBJECT: readonly number[] = [400, 404, 409, 422];

/** What was written last to an object, or was found as desired. */
interface Written {
  readonly desired: StatusFields;
  /** The status as the server stored it, with its defaults. */
  readonly stored: StatusFields;
}

export class StatusWriter {
  readonly #options: StatusWriterOptions;
  readonly #controller: Controller;
  readonly #written = new Map<string, Written>();
  readonly #ofObjects = new Map<string, TokenBucket>();
  /** Failures by kind. */
  readonly #failures = new Map<string, FailureLog>();
  /** Logs of objects whose status the server rejects, by key. */
  readonly #refused = new Map<string, FailureLog>();

  constructor(options: StatusWriterOptions) {
    this.#options = options;
    const { client, budget } = options;
    this.#controller = new Controller({
      connection: client.connection,
      reconcile: (key) => this.#reconcile(key),
      concurrency: CONCURRENCY,
      budget,
      onFailure: (key, error) => this.#failed(key, error),
      isOfKey: (error) => error instanceof ApiError && OF_OBJECT.includes(error.status),
      groupOf: parseKind,
      laneOf: parseNamespace,
    });
  }

  /** The desired status of these keys, or the object in the API server, has changed. */
  changed(keys: Iterable<string>): void {
    this.#controller.addAll(keys);
  }

  close(): Promise<void> {
    return this.#controller.close();
  }

  async #reconcile(key: string): Promise<Outcome> {
    const object = this.#options.objects.get(key);
    if (object === undefined) {
      this.#written.delete(key);
      this.#ofObjects.delete(key);
      this.#refused.delete(key);
      this.#controller.forget(key);
      return 'done';
    }
    if (this.#change(key, object) === undefined) return 'done';
    const desired = this.#options.desired().get(key);
    const content = desired === undefined ? '' : JSON.stringify(this.#options.rules.fieldsOf(desired));
    const wait = this.#bucketOf(key).take() || this.#controller.repair(key, content);
    if (wait > 0) return wait;
    await this.#controller.mayWrite();
    // The object and its desired status may have changed meanwhile.
    const newest = this.#options.objects.get(key);
    const patch = newest && this.#change(key, newest);
    if (newest !== undefined && patch !== undefined) await this.#write(key, newest, patch);
    return 'done';
  }

  /** The patch that the object needs; undefined if its status is as desired. */
  #change(key: string, object: StatusObject): Record<string, unknown> | undefined {
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
    // The server may have added defaults to the written status.
    const settled =
      written !== undefined &&
      isDeepStrictEqual(written.desired, status) &&
      isDeepStrictEqual(written.stored, object.status);
    if (settled) return undefined;
    const patch = rules.patch(object, status, time);
    // The status was written by the previous leader.
    if (patch === undefined && written === undefined)
      this.#written.set(key, { desired: status, stored: object.status });
    return patch;
  }

  #bucketOf(key: string): TokenBucket {
    const known = this.#ofObjects.get(key);
    if (known !== undefined) return known;
    const { clock } = this.#options.client.connection;
    const bucket = new TokenBucket({ ...WRITES_OF_OBJECT, now: clock.now });
    this.#ofObjects.set(key, bucket);
    return bucket;
  }

  async #write(key: string, object: StatusObject, status: Record<string, unknown>): Promise<void> {
    const { client, objects, desired, rules } = this.#options;
    const { type, namespace, name, uid, resourceVersion } = object;
    const { signal } = this.#controller;
    const wanted = desired().get(key);
    // The version makes it fail with 409 if another controller has written its entries in the meantime.
    const patch = { metadata: { uid, resourceVersion }, status };
    const options = { namespace, type: 'application/merge-patch+json', subresource: 'status', signal } as const;
    await objects.write(object, () => client.patch(type, name, patch, options));
    this.#refused.get(key)?.succeeded();
    this.#refused.delete(key);
    this.#failures.get(parseKind(key))?.succeeded();
    if (wanted === undefined) this.#written.delete(key);
    else this.#written.set(key, { desired: rules.fieldsOf(wanted), stored: objects.get(key)?.status ?? {} });
  }

  #failed(key: string, error: unknown): void {
    const status = error instanceof ApiError ? error.status : 0;
    // The object was deleted; or the write is repeated with the version that the watch reports.
    if (status === 404 || status === 409) return;
    if (OF_OBJECT.includes(status)) {
      this.#refusalLog(key).failed(oneLineOf(error));
      return;
    }
    const reason =
      error instanceof ApiError ? `the API server returned HTTP ${status} ${error.reason}` : oneLineOf(error);
    this.#failureLog(key).failed(reason, { object: key, answer: oneLineOf(error) });
  }

  #refusalLog(key: string): FailureLog {
    const known = this.#refused.get(key);
    if (known !== undefined) return known;
    const created = createFailureLog(
      this.#options.log,
      `the API server rejects the status of ${key}`,
      `the status of ${key} is written`,
    );
    this.#refused.set(key, created);
    return created;
  }

  #failureLog(key: string): FailureLog {
    const kind = parseKind(key);
    const known = this.#failures.get(kind);
    if (known !== undefined) return known;
    const plural = this.#options.objects.get(key)?.type.plural ?? kind;
    const created = createFailureLog(
      this.#options.log,
      `a status of ${plural} cannot be written`,
      `statuses of ${plural} can be written again`,
    );
    this.#failures.set(kind, created);
    return created;
  }
}

function parseKind(key: string): string {
  return key.slice(0, key.indexOf('/'));
}

function parseNamespace(key: string): string {
  const start = key.indexOf('/') + 1;
  return key.slice(start, key.indexOf('/', start));
}
