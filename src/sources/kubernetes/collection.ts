/**
 * One collection of an API server, followed for a feed: whether it can be read, and what the log says where it cannot.
 */
import type { Clock } from '../../core/clock.ts';
import type { CtlError } from '../../core/errors.ts';
import { ApiError, type Connection, ConnectionError, Reflector } from '../../kubernetes/index.ts';
import { type DocumentLimits, isSecurityKind, type ObjectAccess, writtenKind } from '../../resources/index.ts';
import type { FailureReport } from './failures.ts';
import type { FeedMember, MemberChange } from './kind-feed.ts';
import type { ObjectQuota, QuotaAccount } from './object-quota.ts';
import { keyOfObject, type ReadObject, readObject, unreadableObject } from './read-object.ts';
import type { ServedType } from './types.ts';

/** Answers "forbidden" in a row before it is believed: a server that starts refuses until it has read its rules. */
const FORBIDDEN_ATTEMPTS = 3;

export interface CollectionOptions {
  readonly source: string;
  /** Left out: all namespaces. */
  readonly namespace?: string;
  /** Only objects of this name are read; left out: all. */
  readonly objectName?: string;
  readonly member: FeedMember;
  readonly connection: Connection;
  readonly clock: Clock;
  readonly random: () => number;
  readonly watchSeconds?: number;
  readonly failures: FailureReport;
  /** Left out: objects may use any memory. */
  readonly quota?: ObjectQuota;
  /** How long reading pauses: see the option of the reflector. */
  readonly pause?: (objects: number, bytes: number) => number;
  /** Whether the source has to wait for it, also where it is forbidden. */
  readonly isRequired: boolean;
  /** A warning of the server about this kind. */
  readonly onWarning: (type: ServedType, text: string) => void;
  /** What one document may ask for. */
  readonly limits: DocumentLimits;
  /** The collection has been listed, or is known not to be readable. */
  readonly onSettled: () => void;
  /** The server says that there is no such collection. */
  readonly onAbsent: () => void;
}

export class Collection {
  readonly #options: CollectionOptions;
  readonly #account: QuotaAccount | undefined;
  #type: ServedType;
  #reflector: Reflector<ReadObject>;
  #listed = false;
  #forbidden = 0;
  #absent = false;
  #closed = false;

  constructor(type: ServedType, options: CollectionOptions) {
    this.#type = type;
    this.#options = options;
    this.#account = options.quota?.account();
    this.#reflector = this.#follow();
  }

  get type(): ServedType {
    return this.#type;
  }

  /** Whether the last answer was that there is no such collection. */
  get isAbsent(): boolean {
    return this.#absent;
  }

  /** Whether its objects are known; `forbidden`: the program has no right to read them. */
  get access(): ObjectAccess {
    if (this.#forbidden >= FORBIDDEN_ATTEMPTS) return 'forbidden';
    return this.#listed ? 'read' : 'pending';
  }

  /**
   * Whether nothing more is to be waited for at start. A policy kind that is forbidden is waited for: without its
   * documents, workloads would be open that are not meant to be.
   */
  get isSettled(): boolean {
    const isRequired = this.#options.isRequired || isSecurityKind(this.#type.kind);
    return this.#listed || (this.#forbidden >= FORBIDDEN_ATTEMPTS && !isRequired);
  }

  /** Follows the same kind in another version. */
  async retype(type: ServedType): Promise<void> {
    this.#type = type;
    const before = this.#reflector;
    await before.close();
    if (this.#reflector === before && !this.#closed) this.#reflector = this.#follow();
  }

  /** The collection does not exist any more. */
  async remove(): Promise<void> {
    await this.close();
    this.#options.failures.forget(this.#name);
    this.#options.member.remove();
  }

  close(): Promise<void> {
    this.#closed = true;
    return this.#reflector.close();
  }

  get #name(): string {
    const { kind, group } = this.#type;
    const { namespace, objectName } = this.#options;
    const all = group === '' ? kind : `${kind}.${group}`;
    const of = objectName === undefined ? all : `${all} ${objectName}`;
    return namespace === undefined ? of : `${of} in namespace ${namespace}`;
  }

  #follow(): Reflector<ReadObject> {
    const { connection, clock, random, namespace, objectName, watchSeconds, pause } = this.#options;
    const { source, member, failures, limits } = this.#options;
    const type = this.#type;
    const reflector = new Reflector<ReadObject>(
      {
        connection,
        type: { ...type, kind: writtenKind(type.kind) },
        clock,
        random,
        ...(namespace === undefined || !type.namespaced ? {} : { namespace }),
        ...(objectName === undefined ? {} : { fieldSelector: `metadata.name=${objectName}` }),
        ...(watchSeconds === undefined ? {} : { watchSeconds }),
        ...(pause === undefined ? {} : { pause }),
      },
      {
        onBegin: (isList) => this.#account?.begin(isList),
        convert: (object) => this.#received(readObject(source, type.kind, object, clock.now(), limits)),
        convertUnreadable: (object, { message }) =>
          this.#received(unreadableObject(source, type.kind, object, message, clock.now())),
        onList: (items) => {
          this.#account?.list(items);
          member.onList(items);
          this.#listed = true;
          this.#readable();
          this.#options.onSettled();
        },
        onChanges: (changes) => {
          const members = changes.map((change): MemberChange => {
            return change.type === 'set' ? change : { type: 'deleted', key: keyOfObject(type.kind, change.object) };
          });
          this.#reported(members);
          member.onChanges(members);
        },
        onFailure: (error, verb) => this.#failed(error, verb),
        onRecovered: () => {
          const wasForbidden = this.access === 'forbidden';
          this.#readable();
          if (wasForbidden) this.#options.onSettled();
        },
        onWarning: (text) => this.#options.onWarning(type, text),
      },
    );
    failures.forget(this.#name);
    reflector.start();
    return reflector;
  }

  /** @throws CtlError where the object does not fit into the quota */
  #received(object: ReadObject): ReadObject {
    this.#account?.receive(object);
    return object;
  }

  #reported(changes: readonly MemberChange[]): void {
    for (const change of changes) {
      if (change.type === 'set') this.#account?.set(change.item);
      else this.#account?.delete(change.key);
    }
  }

  #readable(): void {
    this.#forbidden = 0;
    this.#absent = false;
    this.#options.failures.recovered(this.#name);
  }

  #failed(error: CtlError, verb: 'list' | 'watch'): void {
    // The connection reports that itself, once for all kinds.
    if (error instanceof ConnectionError && error.lost) return;
    const status = error instanceof ApiError ? error.status : 0;
    this.#forbidden = status === 403 ? this.#forbidden + 1 : 0;
    this.#absent = status === 404;
    this.#options.failures.failed(this.#name, this.#reason(error, verb, status));
    if (status === 404) this.#options.onAbsent();
    if (this.#forbidden !== FORBIDDEN_ATTEMPTS || !this.isSettled) return;
    this.#options.member.skip();
    this.#options.onSettled();
  }

  #reason(error: CtlError, verb: 'list' | 'watch', status: number): string {
    const text = `cannot ${verb}: ${error.oneLine()}`;
    if (this.#listed) return `${text}; what was read before stays in force`;
    if (status !== 403 || this.#options.isRequired) return `${text}; waiting until it can be read`;
    if (this.#options.objectName !== undefined) {
      return `${text}; this program sends none of this name until it may read them`;
    }
    if (isSecurityKind(this.#type.kind)) return `${text}; not ready without it, for its policies protect workloads`;
    return `${text}; nothing of this kind is in force until it may be read`;
  }
}
