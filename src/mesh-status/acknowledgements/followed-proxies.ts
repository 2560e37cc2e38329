/** The proxies that are connected to this replica, and which of them may lack a change. */
import type { Clock } from '../../core/clock.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import type { ResourceKey } from '../../resources/index.ts';
import type { ConnectedProxy } from '../../xds/index.ts';

/** What is read of a proxy. */
export type ObservedProxy = Omit<ConnectedProxy, 'listeners'>;

/** A resource that a proxy rejects. */
export interface RejectedResource {
  /** What the proxy says. */
  readonly message: string;
  /** Of the documents from which it was generated. */
  readonly namespaces: ReadonlySet<string>;
}

/** The documents from which the resources were generated that a proxy has not accepted. */
export interface Unaccepted {
  /** The version up to which the proxy was sent everything when this was found. */
  readonly sent: number;
  /** By document. */
  readonly rejected: ReadonlyMap<ResourceKey, RejectedResource>;
  readonly outstanding: ReadonlySet<ResourceKey>;
  /** More resources than have been looked up: any document that the proxy reads may be one of theirs. */
  readonly isCut: boolean;
  /** Further resources are looked up next time, also if the proxy does nothing until then. */
  readonly isContinued: boolean;
}

export interface FollowedProxiesOptions {
  readonly clock: Clock;
  /** The version of the snapshot that proxies are served from. */
  readonly version: () => number;
  /** The documents from which a resource of a connection was generated, also of kinds that have no statuses. */
  readonly documentsOf: (connectionId: string, resource: string) => readonly ResourceKey[];
}

/** How long it is believed which proxies lack a change, and why a proxy does, ms. */
const [LACKING_MS, UNACCEPTED_MS] = [100, 1_000];
/** For how many resources of a proxy that it has not accepted the documents are looked up at a time, in each state. */
const MAX_EXPLAINED = 16;
/** How many rejected resources are listed: as long as a proxy rejects them, all of them are looked up in turn. */
const MAX_LISTED = 1_000;
/** Behind how many outstanding resources rejected ones are still found: passing them takes some milliseconds. */
const MAX_PASSED = 20_000;

export class FollowedProxy {
  /** `workload.namespace`. */
  readonly name: string;
  readonly namespace: string;
  readonly #proxy: ObservedProxy;
  readonly #options: FollowedProxiesOptions;
  /** It only grows: what was acknowledged stays so. */
  #acknowledged = 0;
  #unaccepted: { readonly at: number; readonly found: Unaccepted } | undefined;
  /** The documents of resources that it rejects, by resource; those that were looked up last come last. */
  #explained: ReadonlyMap<string, readonly ResourceKey[]> = new Map();

  constructor({ workload, namespace }: ProxyNode, proxy: ObservedProxy, options: FollowedProxiesOptions) {
    this.name = workload;
    this.namespace = namespace;
    this.#proxy = proxy;
    this.#options = options;
  }

  /** See `ConnectedProxy`. */
  get connectionId(): string {
    return this.#proxy.connectionId;
  }

  get acknowledged(): number {
    return this.#acknowledged;
  }

  refresh(served: number): void {
    if (this.#acknowledged >= served) return;
    this.#acknowledged = Math.max(this.#acknowledged, this.#proxy.acknowledgedVersion());
  }

  /** The last result of {@link unaccepted}, which may be outdated. */
  get lastUnaccepted(): Unaccepted | undefined {
    return this.#unaccepted?.found;
  }

  /** Whether the last result of {@link unaccepted} is believed, so that reading it costs nothing. */
  get isExplained(): boolean {
    return this.#unaccepted !== undefined && this.#options.clock.now() - this.#unaccepted.at < UNACCEPTED_MS;
  }

  /** Looked up at most once in a while, because that is expensive. */
  unaccepted(): Unaccepted {
    if (this.#unaccepted !== undefined && this.isExplained) return this.#unaccepted.found;
    const sent = this.#proxy.completeVersion();
    const outstanding = new Set<ResourceKey>();
    const messages = new Map<string, string>();
    let [listed, waiting] = [0, 0];
    for (const [, name, answer] of this.#proxy.unaccepted())
      if (typeof answer === 'object' && answer.certain) {
        if (++listed > MAX_LISTED) break;
        messages.set(name, messages.get(name) ?? answer.rejected);
      } else if (++waiting > MAX_PASSED) break;
      else if (waiting <= MAX_EXPLAINED) for (const key of this.#documentsOf(name)) outstanding.add(key);
    const rejected = this.#explain(messages);
    const isContinued = waiting > MAX_EXPLAINED || this.#explained.size < messages.size;
    const found = { sent, rejected, outstanding, isCut: isContinued || listed > MAX_LISTED, isContinued };
    this.#unaccepted = { at: this.#options.clock.now(), found };
    return found;
  }

  /**
   * The documents of rejected resources. A few resources are looked up each time: first those that never were, then
   * those for which that is longest ago.
   */
  #explain(messages: ReadonlyMap<string, string>): ReadonlyMap<ResourceKey, RejectedResource> {
    const known = [...this.#explained.keys()].filter((name) => messages.has(name));
    const unknown = [...messages.keys()].filter((name) => !this.#explained.has(name));
    const due = new Set([...unknown, ...known].slice(0, MAX_EXPLAINED));
    const explained = new Map<string, readonly ResourceKey[]>();
    for (const name of known) if (!due.has(name)) explained.set(name, this.#explained.get(name) ?? []);
    for (const name of due) explained.set(name, this.#documentsOf(name));
    this.#explained = explained;
    const rejected = new Map<ResourceKey, RejectedResource>();
    for (const [name, message] of messages) addRejected(rejected, explained.get(name) ?? [], message);
    return rejected;
  }

  #documentsOf(resource: string): readonly ResourceKey[] {
    return this.#options.documentsOf(this.#proxy.connectionId, resource);
  }

  /** It has rejected something. */
  outdated(): void {
    this.#unaccepted = undefined;
  }
}

export class FollowedProxies {
  readonly #options: FollowedProxiesOptions;
  readonly #proxies = new Set<FollowedProxy>();
  #refreshedAt = Number.NEGATIVE_INFINITY;
  /** By what they have acknowledged, the least first. */
  #behind: readonly FollowedProxy[] = [];
  /** Whether proxies in `#behind` have disconnected. */
  #haveLeft = false;

  constructor(options: FollowedProxiesOptions) {
    this.#options = options;
  }

  add(node: ProxyNode, proxy: ObservedProxy): FollowedProxy {
    const added = new FollowedProxy(node, proxy, this.#options);
    this.#proxies.add(added);
    this.#refreshedAt = Number.NEGATIVE_INFINITY;
    return added;
  }

  delete(proxy: FollowedProxy): void {
    this.#proxies.delete(proxy);
    this.#haveLeft = true;
  }

  /** The proxies that may lack a change of this version. */
  behind(version: number): readonly FollowedProxy[] {
    const { clock, version: served } = this.#options;
    const now = clock.now();
    if (now - this.#refreshedAt >= LACKING_MS) {
      this.#refreshedAt = now;
      for (const proxy of this.#proxies) proxy.refresh(served());
      this.#behind = [...this.#proxies].sort((one, other) => one.acknowledged - other.acknowledged);
    } else if (this.#haveLeft) this.#behind = this.#behind.filter((proxy) => this.#proxies.has(proxy));
    this.#haveLeft = false;
    const first = this.#behind.findIndex(({ acknowledged }) => acknowledged >= version);
    return first < 0 ? this.#behind : this.#behind.slice(0, first);
  }
}

function addRejected(
  rejected: Map<ResourceKey, RejectedResource>,
  documents: readonly ResourceKey[],
  message: string,
): void {
  const resource = { message, namespaces: namespacesOf(documents) };
  for (const key of documents) if (!rejected.has(key)) rejected.set(key, resource);
}

export function namespacesOf(documents: readonly ResourceKey[]): ReadonlySet<string> {
  return new Set(documents.map((key) => key.split('/', 2)[1] ?? ''));
}
