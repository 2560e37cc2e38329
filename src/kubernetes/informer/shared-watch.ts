/**
 * One list and one watch for each collection of an API server, shared by all of its followers.
 *
 *   reflector ──object──▶ convert of each follower ──▶ lists and changes of each follower
 *
 * A follower joins a watch that covers its selection. If it joins before anything was read, it gets the same list. If
 * it joins later and the retained parts of the objects are sufficient for it, it gets these without a request;
 * otherwise the collection is listed again for all followers.
 */
import type { CtlError } from '../../core/errors.ts';
import { ApiError, isLost } from '../api-error.ts';
import type { Connection } from '../connection.ts';
import { type KubernetesObject, objectKey, type ResourceType } from '../objects.ts';
import { Reflector, type ReflectorHandlers } from '../reflector.ts';
import type { ObjectChange } from '../watch-stream.ts';

/**
 * Number of consecutive "forbidden" responses after which access counts as denied: a starting server denies access
 * until it has read its rules.
 */
const FORBIDDEN_ATTEMPTS = 3;

/** The objects that are followed. */
export interface Selection {
  readonly type: ResourceType;
  /** All namespaces by default. */
  readonly namespace?: string;
  /** Only objects of this name; all objects by default. */
  readonly name?: string;
  readonly labelSelector?: string;
}

export interface FollowOptions extends Selection {
  readonly connection: Connection;
  /** Duration of a watch that is requested from the server, seconds. The value of the first follower is used. */
  readonly watchSeconds?: number;
  /** How long reading pauses: see the option of the reflector. The value of the first follower is used. */
  readonly pause?: (objects: number, bytes: number) => number;
  /**
   * The part of each object that is retained for later followers of the same collection. The value of the first
   * follower is used. By default nothing is retained.
   */
  readonly retain?: (object: KubernetesObject) => KubernetesObject;
  /** Whether the retained part of objects is sufficient for this follower; default: no. */
  readonly fromRetained?: boolean;
}

export interface FollowHandlers<T> extends Omit<ReflectorHandlers<T>, 'convert' | 'onFailure'> {
  /** As in a reflector; undefined: the object is left out. */
  convert(object: KubernetesObject): T | undefined;
  /** @param isForbidden whether the server has denied access so often in a row that it counts as denied */
  onFailure(error: CtlError, verb: 'list' | 'watch', isForbidden: boolean): void;
}

export interface Following {
  /** After this call, no handler is called. Resolves when the watch has ended, unless it has other followers. */
  close(): Promise<void>;
}

/** Follows a collection. The handlers are called later, never before this has returned. */
export function followCollection<T>(options: FollowOptions, handlers: FollowHandlers<T>): Following {
  const watches = watchesOf(options.connection);
  let shared = watches.find((watch) => watch.covers(options));
  if (shared === undefined) {
    shared = new SharedWatch(options);
    watches.push(shared);
  }
  const watch = shared;
  // Each follower's handlers receive only values of its own conversion.
  const follower: Follower = {
    options,
    handlers: handlers as FollowHandlers<unknown>,
    isListed: false,
    isFailing: false,
  };
  watch.add(follower);
  return {
    close() {
      const ended = watch.remove(follower);
      const index = watches.indexOf(watch);
      if (watch.isUnused && index >= 0) watches.splice(index, 1);
      return ended;
    },
  };
}

const ALL = new WeakMap<Connection, SharedWatch[]>();

function watchesOf(connection: Connection): SharedWatch[] {
  const known = ALL.get(connection) ?? [];
  ALL.set(connection, known);
  return known;
}

interface Follower {
  readonly options: FollowOptions;
  readonly handlers: FollowHandlers<unknown>;
  /** Whether the follower has received a list. Earlier changes are not reported to it. */
  isListed: boolean;
  /** Whether a failure was reported to it since the last success. */
  isFailing: boolean;
}

/** An object that was received, as each follower converted it. */
interface Row {
  readonly key: string;
  readonly retained: KubernetesObject | undefined;
  readonly followers: readonly Follower[];
  /** In the order of `followers`; undefined: left out. */
  readonly values: readonly unknown[];
}

class SharedWatch {
  readonly #options: FollowOptions;
  #followers: readonly Follower[] = [];
  #reflector: Reflector<Row> | undefined;
  /** The retained parts of objects by key; undefined if nothing is retained. */
  readonly #retained: Map<string, KubernetesObject> | undefined;
  /** Whether anything was read since the start. */
  #hasRead = false;
  #isListed = false;
  #forbidden = 0;

  constructor(options: FollowOptions) {
    this.#options = options;
    this.#retained = options.retain === undefined ? undefined : new Map();
  }

  covers({ type, namespace, name, labelSelector }: Selection): boolean {
    const own = this.#options;
    const isWithin = own.namespace === undefined || !type.namespaced || own.namespace === namespace;
    const isNamed = own.name === undefined || own.name === name;
    return isWithin && isNamed && own.labelSelector === labelSelector && hasFieldsOf(own.type, type);
  }

  get isUnused(): boolean {
    return this.#followers.length === 0;
  }

  add(follower: Follower): void {
    this.#followers = [...this.#followers, follower];
    if (this.#reflector === undefined) this.#start();
    else if (this.#retained !== undefined && follower.options.fromRetained === true) {
      // While the first list is read, the follower gets it when it is complete.
      if (this.#isListed) queueMicrotask(() => this.#listRetained(follower));
    } else if (this.#hasRead) this.#start();
  }

  async remove(follower: Follower): Promise<void> {
    this.#followers = this.#followers.filter((each) => each !== follower);
    if (this.isUnused) await this.#reflector?.close();
  }

  /** Lists the collection from the start for all followers. */
  #start(): void {
    const { connection, name, type, ...rest } = this.#options;
    const { clock, random } = connection;
    const selector = name === undefined ? {} : { fieldSelector: `metadata.name=${name}` };
    this.#hasRead = false;
    void this.#reflector?.close();
    const reflector: Reflector<Row> = new Reflector<Row>(
      { ...rest, type, connection, clock, random, ...selector },
      this.#handlers(() => this.#reflector === reflector),
    );
    this.#reflector = reflector;
    reflector.start();
  }

  /**
   * @param isCurrent whether the reflector has not been replaced
   */
  #handlers(isCurrent: () => boolean): ReflectorHandlers<Row> {
    const whenCurrent = (run: () => void): void => {
      if (isCurrent()) run();
    };
    return {
      onBegin: (isList) => whenCurrent(() => this.#toEach(({ handlers }) => handlers.onBegin?.(isList))),
      convert: (object) => this.#row(object, undefined, isCurrent()),
      convertUnreadable: (object, error) => this.#row(object, error, isCurrent()),
      onList: (rows) => whenCurrent(() => this.#listed(rows)),
      onChanges: (changes) => whenCurrent(() => this.#changed(changes)),
      onFailure: (error, verb) => whenCurrent(() => this.#failed(error, verb)),
      onRecovered: () => whenCurrent(() => this.#recovered()),
      onWarning: (text) => this.#toEach(({ handlers }) => handlers.onWarning?.(text)),
    };
  }

  #row(object: KubernetesObject, error: CtlError | undefined, isCurrent: boolean): Row {
    if (isCurrent) this.#hasRead = true;
    const followers = this.#followers;
    return {
      key: objectKey(object),
      retained: this.#options.retain?.(object),
      followers,
      values: followers.map((follower) => converted(follower, object, error)),
    };
  }

  #listed(rows: readonly Row[]): void {
    this.#hasRead = true;
    this.#isListed = true;
    this.#retained?.clear();
    for (const { key, retained } of rows) if (retained !== undefined) this.#retained?.set(key, retained);
    this.#toEach((follower) => {
      follower.isListed = true;
      follower.handlers.onList(rows.map((row) => valueFor(row, follower)).filter((value) => value !== undefined));
    });
  }

  #changed(changes: readonly ObjectChange<Row>[]): void {
    for (const change of changes) {
      if (change.type === 'deleted') this.#retained?.delete(objectKey(change.object));
      else if (change.item.retained !== undefined) this.#retained?.set(change.item.key, change.item.retained);
    }
    this.#toEach((follower) => {
      if (!follower.isListed) return;
      const own = changes.flatMap((change): ObjectChange<unknown>[] => {
        if (change.type === 'deleted') return selects(follower.options, change.object) ? [change] : [];
        const item = valueFor(change.item, follower);
        return item === undefined ? [] : [{ type: 'set', item }];
      });
      if (own.length > 0) follower.handlers.onChanges(own);
    });
  }

  #listRetained(follower: Follower): void {
    if (!this.#followers.includes(follower) || follower.isListed) return;
    follower.isListed = true;
    const objects = [...(this.#retained?.values() ?? [])];
    const values = objects.map((object) => converted(follower, object, undefined));
    follower.handlers.onList(values.filter((value) => value !== undefined));
  }

  #failed(error: CtlError, verb: 'list' | 'watch'): void {
    // A lost connection does not show what the program may read.
    if (!isLost(error)) this.#forbidden = isForbiddenError(error) ? this.#forbidden + 1 : 0;
    const isForbidden = this.#forbidden >= FORBIDDEN_ATTEMPTS;
    this.#toEach((follower) => {
      follower.isFailing = true;
      follower.handlers.onFailure(error, verb, isForbidden);
    });
  }

  #recovered(): void {
    this.#forbidden = 0;
    this.#toEach((follower) => {
      if (!follower.isFailing) return;
      follower.isFailing = false;
      follower.handlers.onRecovered();
    });
  }

  /** Calls each follower, even if one of them throws an error; the watch is then restarted. */
  #toEach(call: (follower: Follower) => void): void {
    const errors: unknown[] = [];
    for (const follower of this.#followers) {
      // The previous handler may have removed the follower.
      if (!this.#followers.includes(follower)) continue;
      try {
        call(follower);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}

/** The value to which a follower converted an object; a follower that joined later converts the retained part. */
function valueFor({ followers, values, retained }: Row, follower: Follower): unknown {
  const index = followers.indexOf(follower);
  if (index >= 0) return values[index];
  return retained === undefined ? undefined : converted(follower, retained, undefined);
}

function converted({ options, handlers }: Follower, object: KubernetesObject, error: CtlError | undefined): unknown {
  if (!selects(options, object)) return undefined;
  return error === undefined ? handlers.convert(object) : handlers.convertUnreadable?.(object, error);
}

function isForbiddenError(error: CtlError): boolean {
  return error instanceof ApiError && error.status === 403;
}

/** Compares namespace and name; all followers of a watch have the same label selector. */
function selects({ type, namespace, name }: Selection, { metadata }: KubernetesObject): boolean {
  const isWithin = namespace === undefined || !type.namespaced || metadata.namespace === namespace;
  return isWithin && (name === undefined || metadata.name === name);
}

/** Whether objects of one form have all fields of those of another form of the same kind. */
function hasFieldsOf(one: ResourceType, other: ResourceType): boolean {
  const isSame = one.group === other.group && one.version === other.version && one.plural === other.plural;
  const extent = ({ metadataOnly, wholeObjects }: ResourceType): number => {
    return metadataOnly === true ? 0 : wholeObjects === true ? 2 : 1;
  };
  return isSame && extent(one) >= extent(other);
}
