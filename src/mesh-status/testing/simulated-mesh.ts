/** Documents and the proxies of one replica, in time that a test advances. */
import type { Clock, Timer } from '../../core/clock.ts';
import type { ResourceKey } from '../../resources/index.ts';
import { FollowedProxies, type FollowedProxy, type ObservedProxy } from '../acknowledgements/followed-proxies.ts';
import type { DocumentInForce, Rejection } from '../acknowledgements/open-documents.ts';
import { OpenDocuments } from '../acknowledgements/open-documents.ts';

/** A clock whose timers run when a test advances it. */
export class SteppedClock implements Clock {
  #now = 0;
  readonly #timers = new Set<{ readonly at: number; readonly run: () => void }>();

  now(): number {
    return this.#now;
  }

  setTimer(ms: number, run: () => void): Timer {
    const timer = { at: this.#now + ms, run };
    this.#timers.add(timer);
    return { cancel: () => this.#timers.delete(timer) };
  }

  advance(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= end).sort((one, other) => one.at - other.at);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.run();
    }
    this.#now = Math.max(this.#now, end);
  }

  /** Time that work takes. */
  pass(ms: number): void {
    this.#now += ms;
  }
}

interface Document extends DocumentInForce {
  readonly isBad: boolean;
}

/** A proxy that uses some documents. It answers when the test says so. */
export class SimulatedProxy implements ObservedProxy {
  readonly connectionId: string;
  readonly uses: ReadonlySet<ResourceKey>;
  /** The version of the mesh when it connected. */
  readonly since: number;
  readonly #mesh: SimulatedMesh;
  /** The version of each document that it has accepted, and rejected. */
  readonly accepted = new Map<ResourceKey, number>();
  readonly rejected = new Map<ResourceKey, number>();
  #complete = 0;
  /** The version up to which it is sent everything; undefined: the newest. */
  sentUntil: number | undefined;

  constructor(mesh: SimulatedMesh, connectionId: string, uses: Iterable<ResourceKey>) {
    this.#mesh = mesh;
    this.connectionId = connectionId;
    this.since = mesh.version;
    this.uses = new Set(uses);
  }

  /** Answers everything that it has been sent. @returns whether it has rejected something */
  answer(): boolean {
    let hasRejected = false;
    for (const [key, { since, isBad }] of this.#mesh.documents) {
      if (!this.uses.has(key) || since > this.completeVersion()) continue;
      (isBad ? this.rejected : this.accepted).set(key, since);
      hasRejected ||= isBad;
    }
    if ([...this.#lacking()].length === 0) this.#complete = this.completeVersion();
    return hasRejected;
  }

  completeVersion(): number {
    return this.sentUntil ?? this.#mesh.version;
  }

  acknowledgedVersion(): number {
    return [...this.#lacking()].length === 0 ? this.completeVersion() : this.#complete;
  }

  unaccepted(): ReturnType<ObservedProxy['unaccepted']> {
    this.#mesh.onUnaccepted();
    return this.#lacking();
  }

  *#lacking(): ReturnType<ObservedProxy['unaccepted']> & Generator {
    for (const [key, { since }] of this.#mesh.documents) {
      if (!this.uses.has(key) || this.accepted.get(key) === since || since > this.completeVersion()) continue;
      const isRejected = this.rejected.get(key) === since;
      yield ['rds', key, isRejected ? { rejected: this.#mesh.said(key), certain: true } : 'outstanding'];
    }
  }
}

export class SimulatedMesh {
  readonly clock = new SteppedClock();
  readonly documents = new Map<ResourceKey, Document>();
  readonly withheld = new Map<ResourceKey, Rejection>();
  readonly changed: ResourceKey[] = [];
  readonly proxies = new Map<SimulatedProxy, FollowedProxy>();
  readonly open: OpenDocuments;
  readonly #followed: FollowedProxies;
  /** Each resource has the name of a document. */
  documentsOf = (resource: string): readonly ResourceKey[] => [resource];
  /** What a proxy says that rejects a resource. */
  said = (resource: string): string => `no ${resource}`;
  /** Called when somebody asks what a proxy has not accepted. */
  onUnaccepted = (): void => {};
  version = 1;
  #connections = 0;

  constructor() {
    const { clock } = this;
    const version = () => this.version;
    this.#followed = new FollowedProxies({
      clock,
      version,
      documentsOf: (_connection, resource) => this.documentsOf(resource),
    });
    this.open = new OpenDocuments({
      clock,
      version,
      rootNamespace: () => 'root',
      proxies: this.#followed,
      inForce: (key) => this.documents.get(key),
      readersOf: (key) => {
        const readers = [...this.proxies.keys()].filter(({ uses }) => uses.has(key));
        return new Set(readers.map(({ connectionId }) => connectionId));
      },
      withheld: () => this.withheld,
      onChanged: (keys) => void this.changed.push(...keys),
    });
  }

  /** A new version of a document is published. */
  set(key: ResourceKey, isBad = false): void {
    this.version++;
    const generation = (this.documents.get(key)?.generation ?? 0) + 1;
    this.documents.set(key, { uid: key, generation, since: this.version, isBad });
    this.open.changed(key, generation);
  }

  /** @param isLate whether the API server tells of the deletion before the store has it */
  delete(key: ResourceKey, isLate = false): void {
    if (isLate) this.open.changed(key, 0);
    if (this.documents.delete(key)) this.version++;
    if (!isLate) this.open.changed(key, 0);
  }

  connect(uses: Iterable<ResourceKey>, namespace = 'shop'): SimulatedProxy {
    const proxy = new SimulatedProxy(this, `c${++this.#connections}`, uses);
    const node = { workload: `${proxy.connectionId}.${namespace}`, namespace };
    this.proxies.set(proxy, this.#followed.add(node as Parameters<FollowedProxies['add']>[0], proxy));
    return proxy;
  }

  answer(proxy: SimulatedProxy): void {
    const followed = this.proxies.get(proxy);
    if (proxy.answer() && followed !== undefined) this.open.rejected(followed);
  }

  disconnect(proxy: SimulatedProxy): void {
    const followed = this.proxies.get(proxy);
    this.proxies.delete(proxy);
    if (followed === undefined) return;
    this.#followed.delete(followed);
    this.open.disconnected(followed);
  }

  /** The status of a document says that all have acknowledged it. */
  settle(key: ResourceKey): void {
    this.open.changed(key, 0);
  }
}
