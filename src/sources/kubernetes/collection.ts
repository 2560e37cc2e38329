/** Follows one collection of an API server for a feed, and logs when it cannot be read. */
import type { Clock } from '../../core/clock.ts';
import { type CtlError, messageOf } from '../../core/errors.ts';
import {
  ApiError,
  type Connection,
  type Following,
  followCollection,
  isLost,
  type KubernetesObject,
} from '../../kubernetes/index.ts';
import {
  type DocumentLimits,
  eventId,
  isGuardedKind,
  type ListedEvent,
  type ObjectAccess,
  type ResourceEvent,
  writtenKind,
} from '../../resources/index.ts';
import type { ObjectReading } from '../pacing/object-reading.ts';
import { CollectionReading } from './collection-reading.ts';
import type { FailureReport } from './failures.ts';
import type { FeedMember } from './kind-feed.ts';
import type { ObjectQuota, QuotaAccount } from './object-quota.ts';
import type { Applied } from './ordered-sink.ts';
import { isSameObject, keyOfObject, type ReceivedObject, readObject, unreadableObject } from './read-object.ts';
import { Relisting } from './relisting.ts';
import type { ServedType } from './types.ts';

export interface CollectionOptions {
  readonly source: string;
  /** Left out: all namespaces. */
  readonly namespace?: string;
  /** Only objects of this name are read; left out: all. */
  readonly objectName?: string;
  readonly member: FeedMember;
  readonly connection: Connection;
  readonly clock: Clock;
  readonly watchSeconds?: number;
  readonly failures: FailureReport;
  /** Left out: objects may use any memory. */
  readonly quota?: ObjectQuota;
  /** Where changed objects wait until they are read; by default they are read when they arrive. */
  readonly reading?: ObjectReading;
  /** How long reading pauses: see the option of the reflector. */
  readonly pause?: (objects: number, bytes: number) => number;
  /** The part of each object that is retained for later followers of the collection; by default nothing. */
  readonly retain?: (object: KubernetesObject) => KubernetesObject;
  /** Whether the source waits for the collection even if access to it is forbidden. */
  readonly isRequired: boolean;
  /** A warning of the server about this kind. */
  readonly onWarning: (type: ServedType, text: string) => void;
  /** Limits of a document. */
  readonly limits: DocumentLimits;
  /** Called when the collection has been listed, or is known not to be readable. */
  readonly onSettled: () => void;
  /** Called when the server reports that there is no such collection. */
  readonly onAbsent: () => void;
}

/** Reading pauses for this long at a time while something of the collection waits to be applied, ms. */
const PAUSE_MS = 20;

export class Collection {
  readonly #options: CollectionOptions;
  readonly #account: QuotaAccount | undefined;
  /** Changes that are not read yet. */
  readonly #unread: CollectionReading | undefined;
  readonly #relisting: Relisting;
  /** Whether a list is being received: its objects are read when they arrive. */
  #isListing = true;
  /** Whether results of reading objects may be reused: not between a change of the version and its list. */
  #mayReuse = true;
  #type: ServedType;
  #following: Following;
  #hasList = false;
  /** Reports that are not applied yet. */
  #unapplied = 0;
  #isForbidden = false;
  #absent = false;
  #closed = false;

  constructor(type: ServedType, options: CollectionOptions) {
    this.#type = type;
    this.#options = options;
    this.#account = options.quota?.account();
    this.#unread = options.reading && this.#readingOf(options.reading);
    this.#relisting = new Relisting(options.clock, options.connection.random, () => void this.retype(this.#type));
    this.#following = this.#follow();
  }

  get type(): ServedType {
    return this.#type;
  }

  /** Whether the last response was that there is no such collection. */
  get isAbsent(): boolean {
    return this.#absent;
  }

  /** Whether its objects are known; `forbidden` if the program has no permission to read them. */
  get access(): ObjectAccess {
    if (this.#isForbidden) return 'forbidden';
    return this.#hasList ? 'read' : 'pending';
  }

  /**
   * Whether the start need not wait for the collection any longer. It does wait for a policy kind that is forbidden:
   * without its policies, workloads would be less protected.
   */
  get isSettled(): boolean {
    const isRequired = this.#options.isRequired || isGuardedKind(this.#type.kind);
    return this.#hasList || (this.#isForbidden && !isRequired);
  }

  /** Follows the same kind in another version. */
  async retype(type: ServedType): Promise<void> {
    this.#mayReuse = false;
    this.#type = type;
    const before = this.#following;
    this.#relisting.cancel();
    this.#unread?.clear();
    await before.close();
    if (this.#following === before && !this.#closed) this.#following = this.#follow();
  }

  /** The collection does not exist any more. */
  async remove(): Promise<void> {
    await this.close();
    this.#options.failures.forget(this.#name);
    await this.#options.member.remove();
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#relisting.cancel();
    this.#unread?.clear();
    return this.#following.close();
  }

  get #name(): string {
    const { kind, group } = this.#type;
    const { namespace, objectName } = this.#options;
    const all = group === '' ? kind : `${kind}.${group}`;
    const of = objectName === undefined ? all : `${all} ${objectName}`;
    return namespace === undefined ? of : `${of} in namespace ${namespace}`;
  }

  #follow(): Following {
    const { connection, namespace, objectName, watchSeconds, pause, retain, failures } = this.#options;
    const type = this.#type;
    failures.forget(this.#name);
    return followCollection<ListedEvent | ReceivedObject>(
      {
        connection,
        type: { ...type, kind: writtenKind(type.kind) },
        ...(namespace === undefined || !type.namespaced ? {} : { namespace }),
        ...(objectName === undefined ? {} : { name: objectName }),
        ...(watchSeconds === undefined ? {} : { watchSeconds }),
        pause: (objects, bytes) => Math.max(pause?.(objects, bytes) ?? 0, this.#unapplied > 0 ? PAUSE_MS : 0),
        ...(retain === undefined ? {} : { retain }),
      },
      {
        onBegin: (isList) => {
          this.#isListing = isList;
          this.#account?.begin(isList);
        },
        convert: (object) => this.#received(type, object),
        convertUnreadable: (object, error) => this.#received(type, object, error),
        onList: (received) => this.#listed(received.map((each) => ('object' in each ? this.#read(each) : each))),
        onChanges: (changes) => {
          const eventTime = this.#options.clock.now();
          const received = changes.map((change): ResourceEvent | ReceivedObject => {
            if (change.type === 'set') return change.item;
            return { type: 'delete', key: keyOfObject(type.kind, change.object), eventTime };
          });
          if (this.#unread !== undefined) this.#unread.add(received);
          else this.#changed(received.map((each) => ('object' in each ? this.#read(each) : each)));
        },
        onFailure: (error, verb, isForbidden) => this.#failed(error, verb, isForbidden),
        onRecovered: () => {
          const wasForbidden = this.access === 'forbidden';
          this.#readable();
          if (wasForbidden) this.#options.onSettled();
        },
        onWarning: (text) => this.#options.onWarning(type, text),
      },
    );
  }

  /**
   * What is kept of a received object; the object itself if it will be read later.
   *
   * @throws CtlError where the object does not fit into the quota
   */
  #received({ kind }: ServedType, object: KubernetesObject, error?: CtlError): ListedEvent | ReceivedObject {
    const received = {
      key: keyOfObject(kind, object),
      object,
      eventTime: this.#options.clock.now(),
      ...(error === undefined ? {} : { error }),
    };
    if (this.#unread !== undefined && !this.#isListing) return received;
    // After a lost connection, most objects are unchanged. A quota counts every received object.
    const mayReuse = this.#mayReuse && this.#account === undefined;
    const known = mayReuse ? this.#options.member.known(received.key) : undefined;
    if (known !== undefined && isSameObject(known, object)) return known;
    const read = this.#read(received);
    this.#account?.receive(read);
    return read;
  }

  #read({ object, error, eventTime }: ReceivedObject): ListedEvent {
    const { source, limits } = this.#options;
    const { kind } = this.#type;
    return error === undefined
      ? readObject(source, kind, object, eventTime, limits)
      : unreadableObject(source, kind, object, error.message, eventTime);
  }

  #readingOf(reading: ObjectReading): CollectionReading {
    return new CollectionReading(this.#name, reading, {
      read: (received) => this.#read(received),
      report: (events) => this.#awaitApplied(this.#options.member.onChanges(events)),
      onFailure: (error) => this.#lost(error),
    });
  }

  /** Changes were lost. */
  #lost(error: unknown): void {
    if (this.#closed) return;
    this.#options.failures.failed(this.#name, `cannot apply changes: ${messageOf(error)}; it is listed again`);
    this.#relisting.failed();
  }

  /** Reading pauses until what was reported is applied. */
  #awaitApplied(applied: Applied, then: () => void = () => {}): void {
    if (applied === undefined) {
      then();
      return;
    }
    this.#unapplied++;
    applied
      .finally(() => this.#unapplied--)
      .then(() => {
        if (!this.#closed) then();
      })
      .catch((error: unknown) => this.#lost(error));
  }

  #listed(events: readonly ListedEvent[]): void {
    // The list is newer than the waiting changes.
    this.#unread?.clear();
    this.#isListing = false;
    this.#mayReuse = true;
    this.#account?.list(events);
    const applied = this.#options.member.onList(events);
    this.#relisting.cancel();
    this.#awaitApplied(applied, () => {
      this.#hasList = true;
      this.#readable();
      this.#options.onSettled();
    });
  }

  #changed(events: readonly ResourceEvent[]): void {
    for (const event of events) {
      if (event.type === 'set' || event.type === 'invalid') this.#account?.set(event);
      else this.#account?.delete(eventId(event));
    }
    this.#awaitApplied(this.#options.member.onChanges(events));
  }

  #readable(): void {
    this.#isForbidden = false;
    this.#absent = false;
    this.#options.failures.recovered(this.#name);
  }

  #failed(error: CtlError, verb: 'list' | 'watch', isForbidden: boolean): void {
    // The connection reports that itself, once for all kinds.
    if (isLost(error)) return;
    const status = error instanceof ApiError ? error.status : 0;
    const wasForbidden = this.#isForbidden;
    this.#isForbidden = isForbidden;
    this.#absent = status === 404;
    this.#options.failures.failed(this.#name, this.#reason(error, verb, status));
    if (status === 404) this.#options.onAbsent();
    if (wasForbidden || !isForbidden || !this.isSettled) return;
    this.#options.member.skip();
    this.#options.onSettled();
  }

  #reason(error: CtlError, verb: 'list' | 'watch', status: number): string {
    const text = `cannot ${verb}: ${error.oneLine()}`;
    if (this.#hasList) return `${text}; what was read before stays in force`;
    if (status !== 403 || this.#options.isRequired) return `${text}; waiting until it can be read`;
    if (this.#options.objectName !== undefined) {
      return `${text}; objects of this name are not sent to proxies until this program may read them`;
    }
    if (isGuardedKind(this.#type.kind))
      return `${text}; the program does not become ready without this kind, because its policies protect workloads`;
    return `${text}; no document of this kind is in force until this program may read it`;
  }
}
