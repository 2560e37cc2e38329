/**
 * The current objects of a collection of the API server, in the form that the caller needs, with lookup by name or
 * index and a callback for changes. Informers of one collection share its list and its watch.
 */
import type { CtlError } from '../../core/errors.ts';
import type { FailureLog } from '../../core/log.ts';
import { ApiError } from '../api-error.ts';
import { reportFailure } from '../failures.ts';
import { isOlder, type KubernetesObject, objectKey } from '../objects.ts';
import type { ObjectChange } from '../watch-stream.ts';
import { type Following, type FollowOptions, followCollection } from './shared-watch.ts';

/** The difference between two states of an object in the collection. */
export interface InformerChange<T> {
  readonly namespace: string;
  readonly name: string;
  /** Undefined: the object did not exist or was not kept. */
  readonly before: T | undefined;
  readonly after: T | undefined;
}

export interface InformerOptions<T> extends FollowOptions {
  /** What is kept of an object; undefined: nothing, as if it did not exist. */
  readonly convert: (object: KubernetesObject) => T | undefined;
  /** The value by which `withIndex` finds an object; undefined: by none. */
  readonly index?: (value: T) => string | undefined;
  /**
   * Called after each list, with all objects before and after it, and after each batch of changes.
   *
   * @param isList whether everything was listed; the list can be empty
   */
  readonly onChange: (changes: readonly InformerChange<T>[], isList: boolean) => void;
  /** Called for each failed attempt to read, in addition to the log. */
  readonly onFailure?: (error: CtlError, isForbidden: boolean) => void;
  /** The log while the collection cannot be read. */
  readonly failures: FailureLog;
}

/** An object as it was received. */
interface Received<T> {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string | undefined;
  readonly version: string;
  readonly value: T | undefined;
}

export class Informer<T> {
  readonly #options: InformerOptions<T>;
  /** The objects that are kept, by `namespace/name`. */
  #objects = new Map<string, Received<T>>();
  /** Keys by index value. */
  readonly #index = new Map<string, Set<string>>();
  #following: Following | undefined;
  #isSynced = false;
  /** Counts what the watch reported. */
  #reports = 0;

  constructor(options: InformerOptions<T>) {
    this.#options = options;
  }

  start(): void {
    this.#following ??= followCollection<Received<T>>(this.#options, {
      convert: (object) => this.#received(object),
      onList: (items) => this.#listed(items),
      onChanges: (changes) => this.#changed(changes),
      onFailure: (error, _verb, isForbidden) => this.#failed(error, isForbidden),
      onRecovered: () => this.#options.failures.succeeded(),
    });
  }

  /** `onChange` is not called after `close`. */
  async close(): Promise<void> {
    await this.#following?.close();
  }

  /** Whether the objects were listed: from then on, an unknown object does not exist. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  get(namespace: string, name: string): T | undefined {
    return this.#objects.get(`${namespace}/${name}`)?.value;
  }

  *values(): Iterable<T> {
    for (const { value } of this.#objects.values()) if (value !== undefined) yield value;
  }

  /** The objects with this index value. */
  withIndex(value: string): readonly T[] {
    const keys = [...(this.#index.get(value) ?? [])];
    return keys.flatMap((key) => this.#objects.get(key)?.value ?? []);
  }

  /**
   * Sends a write, and keeps the object that it returns until the watch reports it. If the watch reports an event
   * during the write, the result is not kept, because the event may be newer or a deletion.
   */
  async write(send: () => Promise<KubernetesObject>): Promise<KubernetesObject> {
    const before = this.#reports;
    const object = await send();
    const written = this.#received(object);
    const known = this.#objects.get(objectKey(object));
    const isNewer =
      known === undefined ? this.#reports === before : known.uid === written.uid && !isOlder(written, known);
    if (isNewer) this.#set(written);
    return object;
  }

  /** Sends a deletion, and forgets the object without waiting for the watch. */
  async delete({ metadata }: KubernetesObject, send: () => Promise<void>): Promise<void> {
    await send();
    const { namespace = '', name, uid } = metadata;
    if (this.#objects.get(`${namespace}/${name}`)?.uid === uid) this.#remove(`${namespace}/${name}`);
  }

  #failed(error: CtlError, isForbidden: boolean): void {
    this.#options.onFailure?.(error, isForbidden);
    const isBelieved = isForbidden || !(error instanceof ApiError && error.status === 403);
    if (isBelieved) reportFailure(this.#options.failures, error);
  }

  #received(object: KubernetesObject): Received<T> {
    const { namespace = '', name, uid, resourceVersion = '' } = object.metadata;
    return { namespace, name, uid, version: resourceVersion, value: this.#options.convert(object) };
  }

  #listed(items: readonly Received<T>[]): void {
    this.#reports++;
    const before = this.#objects;
    this.#objects = new Map();
    this.#index.clear();
    for (const item of items) this.#set(item);
    this.#isSynced = true;
    const keys = new Set([...before.keys(), ...this.#objects.keys()]);
    this.#options.onChange(
      [...keys].map((key) => changeOf(before.get(key), this.#objects.get(key))),
      true,
    );
  }

  #changed(changes: readonly ObjectChange<Received<T>>[]): void {
    this.#reports++;
    const reported = changes.flatMap((change): InformerChange<T>[] => {
      const key = change.type === 'set' ? keyOf(change.item) : objectKey(change.object);
      const before = this.#objects.get(key);
      if (change.type === 'deleted') this.#remove(key);
      // The watch may be behind a write.
      else if (before === undefined || before.uid !== change.item.uid || !isOlder(change.item, before)) {
        this.#set(change.item);
      }
      const after = this.#objects.get(key);
      return before === undefined && after === undefined ? [] : [changeOf(before, after)];
    });
    if (reported.length > 0) this.#options.onChange(reported, false);
  }

  #set(received: Received<T>): void {
    const key = keyOf(received);
    this.#remove(key);
    if (received.value === undefined) return;
    this.#objects.set(key, received);
    const index = this.#options.index?.(received.value);
    if (index === undefined) return;
    const keys = this.#index.get(index) ?? new Set();
    this.#index.set(index, keys.add(key));
  }

  #remove(key: string): void {
    const before = this.#objects.get(key);
    if (before?.value === undefined) return;
    this.#objects.delete(key);
    const index = this.#options.index?.(before.value);
    if (index === undefined) return;
    const keys = this.#index.get(index);
    keys?.delete(key);
    if (keys?.size === 0) this.#index.delete(index);
  }
}

function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}

function changeOf<T>(before: Received<T> | undefined, after: Received<T> | undefined): InformerChange<T> {
  const { namespace = '', name = '' } = after ?? before ?? {};
  return { namespace, name, before: before?.value, after: after?.value };
}
