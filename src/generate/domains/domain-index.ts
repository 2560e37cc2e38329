/**
 * Which domains the services of a route configuration have, shared by all namespaces that see the same services. The
 * owner of a domain only matters if there are two candidates. This index shows that there are none without examining
 * every domain of every service again: for different namespaces, the domains only differ in the short names of the
 * namespace's own services.
 */
import type { Memos } from '../../core/memo.ts';
import { PMap } from '../../core/pmap.ts';
import type { ServicePortEntry } from '../indexes/index.ts';
import { foreignViewer, hasDomain, isOwn, serviceDomains, type Viewer, viewerKey } from './service-domains.ts';

export interface OwnHosts {
  readonly hosts: ReadonlySet<IndexedHost>;
  /** The domains that only apply in the service's own namespace. */
  readonly domains: readonly string[];
  /** The hosts with each of these. */
  readonly byDomain: ReadonlyMap<string, readonly IndexedHost[]>;
}

export interface DomainIndex {
  /** By host, in the order of the entries. */
  readonly hosts: ReadonlyMap<string, IndexedHost>;
  /** In the code-unit order of their names. */
  readonly ordered: readonly IndexedHost[];
  /** Whether no two services have a common domain, without the domains that only apply in their own namespaces. */
  readonly disjoint: boolean;
  /** All those domains, with the number of services that have them. */
  readonly domains: PMap<number>;
  /** The services that have one of those domains, in the order of the entries. */
  withDomain(domain: string): readonly IndexedHost[];
  /** The lengths of those domains that begin with `*`. */
  readonly wildcardLengths: ReadonlySet<number>;
  /** The services that may have such a domain in common with another one. */
  readonly sharing: ReadonlySet<IndexedHost>;
}

/** The same object for as long as the service is unchanged. */
export interface IndexedHost {
  readonly entry: ServicePortEntry;
  /** Name of its virtual host: `host:port`. */
  readonly name: string;
  readonly port: number;
  /** The domains that apply in every namespace but the service's own. */
  readonly domains: readonly string[];
}

/**
 * @param port the port that clients use; 0 for each service's own port
 */
export function domainIndex(
  memos: Memos,
  entries: readonly ServicePortEntry[],
  port: number,
  viewer: Viewer,
): DomainIndex {
  const known = memos
    .weak<readonly ServicePortEntry[], Map<string, DomainIndex>>('domain indexes')
    .get(entries, () => new Map());
  const key = `${port}${viewerKey(viewer)}`;
  let index = known.get(key);
  if (index === undefined) {
    const foreign = foreignViewer(viewer);
    const hosts = entries.map((entry) => indexedHost(memos, entry, port, foreign));
    index = new Index(hosts, entries.length < LARGE ? undefined : { memos, key });
    known.set(key, index);
  }
  return index;
}

/**
 * Smaller indexes are computed from scratch: there are many of them, such as those of services with a port of their
 * own.
 */
const LARGE = 64;

/** The number of services with each domain. */
interface Counted {
  readonly list: readonly IndexedHost[];
  readonly domains: DomainIndex['domains'];
}

/** Whether most of the counts may be reused. */
function isAlike({ list: before }: Counted, list: readonly IndexedHost[]): boolean {
  return Math.abs(before.length - list.length) < list.length / 4;
}

/** The last counts of each port. The next ones usually differ by one service. */
function latestCounts(memos: Memos): Map<string, Counted> {
  return memos.weak<Memos, Map<string, Counted>>('latest domain counts').get(memos, () => new Map());
}

/** Maximum remembered ports; the least recently used is evicted first. */
const MAX_LATEST = 64;

function noteLatest(latest: Map<string, Counted>, key: string, counted: Counted): void {
  latest.delete(key);
  latest.set(key, counted);
  const [oldest] = latest.keys();
  if (oldest !== undefined && latest.size > MAX_LATEST) latest.delete(oldest);
}

function indexedHost(memos: Memos, entry: ServicePortEntry, port: number, viewer: Viewer): IndexedHost {
  const known = memos.weak<ServicePortEntry, Map<string, IndexedHost>>('indexed hosts').get(entry, () => new Map());
  const key = `${port}${viewerKey(viewer)}`;
  let host = known.get(key);
  if (host === undefined) {
    const { service } = entry;
    const clientPort = port || entry.port.port;
    const name = `${service.hostname}:${clientPort}`;
    host = { entry, name, port: clientPort, domains: serviceDomains(memos, service, clientPort, viewer) };
    known.set(key, host);
  }
  return host;
}

/** Where the counts of an index are kept for the next one. */
interface CountsAt {
  readonly memos: Memos;
  readonly key: string;
}

interface ByDomain {
  /** By domain without a port. */
  readonly hosts: ReadonlyMap<string, IndexedHost | readonly IndexedHost[]>;
  readonly wildcardLengths: ReadonlySet<number>;
  readonly sharing: ReadonlySet<IndexedHost>;
}

/** Computes what is needed: that all domains are counted, or that a few are looked up. */
class Index implements DomainIndex {
  readonly hosts: DomainIndex['hosts'];
  readonly ordered: DomainIndex['ordered'];
  readonly #list: readonly IndexedHost[];
  #at: CountsAt | undefined;
  #domains: DomainIndex['domains'] | undefined;
  #disjoint: boolean | undefined;
  #byDomain: ByDomain | undefined;

  constructor(list: readonly IndexedHost[], at: CountsAt | undefined) {
    this.hosts = new Map(list.map((host) => [host.entry.service.hostname, host]));
    this.ordered = inOrder(list);
    this.#list = list;
    this.#at = at;
  }

  get domains(): DomainIndex['domains'] {
    this.#domains ??= this.#count();
    return this.#domains;
  }

  #count(): DomainIndex['domains'] {
    const list = this.#list;
    const at = this.#at;
    if (at === undefined) return countedDomains(list, undefined);
    const latest = latestCounts(at.memos);
    const before = latest.get(at.key);
    const domains = countedDomains(list, before !== undefined && isAlike(before, list) ? before : undefined);
    noteLatest(latest, at.key, { list, domains });
    this.#at = undefined;
    return domains;
  }

  get disjoint(): boolean {
    this.#disjoint ??= this.domains.size === this.#list.reduce((sum, { domains }) => sum + domains.length, 0);
    return this.#disjoint;
  }

  withDomain(domain: string): readonly IndexedHost[] {
    this.#byDomain ??= hostsByDomain(this.#list);
    const { hosts } = this.#byDomain;
    const found = hosts.get(withoutPort(domain)) ?? NO_HOSTS;
    return (isList(found) ? found : [found]).filter(({ domains }) => hasDomain(domains, domain));
  }

  get wildcardLengths(): ReadonlySet<number> {
    this.#byDomain ??= hostsByDomain(this.#list);
    return this.#byDomain.wildcardLengths;
  }

  get sharing(): ReadonlySet<IndexedHost> {
    this.#byDomain ??= hostsByDomain(this.#list);
    return this.#byDomain.sharing;
  }
}

const NO_HOSTS: readonly IndexedHost[] = [];

const isList = <List extends readonly IndexedHost[]>(found: IndexedHost | List): found is List => Array.isArray(found);

const PORT = /:\d+$/;

/** Nearly all domains are there with and without a port. */
function withoutPort(domain: string): string {
  return domain.replace(PORT, '');
}

function hostsByDomain(list: readonly IndexedHost[]): ByDomain {
  const hosts = new Map<string, IndexedHost | IndexedHost[]>();
  const wildcardLengths = new Set<number>();
  const sharing = new Set<IndexedHost>();
  for (const host of list) {
    const port = `:${host.port}`;
    let last: string | undefined;
    for (const domain of host.domains) {
      if (domain.startsWith('*')) wildcardLengths.add(domain.length);
      const name = domain.endsWith(port) ? domain.slice(0, -port.length) : domain;
      if (name === last) continue;
      last = name;
      const known = hosts.get(name);
      if (known === undefined) {
        hosts.set(name, host);
        continue;
      }
      sharing.add(host);
      if (isList(known)) known.push(host);
      else {
        sharing.add(known);
        hosts.set(name, [known, host]);
      }
    }
  }
  return { hosts, wildcardLengths, sharing };
}

/**
 * The number of services with each domain, computed from the counts of the previous index, which usually differs only a
 * little.
 */
function countedDomains(list: readonly IndexedHost[], before: Counted | undefined): DomainIndex['domains'] {
  const counts = before?.domains ?? PMap.empty<number>();
  const gone = new Set(before?.list);
  const counted = new Map<string, number>();
  const count = ({ domains }: IndexedHost, by: number) => {
    for (const domain of domains) counted.set(domain, (counted.get(domain) ?? counts.get(domain) ?? 0) + by);
  };
  for (const host of list) if (!gone.delete(host)) count(host, 1);
  for (const host of gone) count(host, -1);
  return counts.with([...counted].map(([domain, number]) => [domain, number === 0 ? undefined : number]));
}

/** Sorts entries by name. They are in the order of their hosts, which is nearly the same. */
function inOrder(list: readonly IndexedHost[]): readonly IndexedHost[] {
  const sorted = list.every(({ name }, index) => index === 0 || (list[index - 1]?.name ?? '') < name);
  return sorted ? list : list.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

const NO_OWN: OwnHosts = { hosts: new Set(), domains: [], byDomain: new Map() };

/** Most viewers without own services that are known to have none: proxies choose the namespace that they state. */
const MAX_WITHOUT = 1024;

/** The viewers of an index, by the suffix of their own services. */
interface Viewers {
  readonly own: Map<string, OwnHosts>;
  /** Those that have none. The oldest is evicted first. */
  readonly without: Set<string>;
}

/** The viewer's own services in an index. */
export function ownHosts(memos: Memos, index: DomainIndex, viewer: Viewer): OwnHosts {
  const viewers = memos
    .weak<DomainIndex, Viewers>('own hosts')
    .get(index, () => ({ own: new Map(), without: new Set() }));
  if (viewers.without.has(viewer.own)) return NO_OWN;
  const known = viewers.own.get(viewer.own);
  if (known !== undefined) return known;
  const hosts = [...index.hosts.values()].filter(({ entry }) => isOwn(entry.service, viewer));
  if (hosts.length === 0) {
    viewers.without.add(viewer.own);
    const [oldest] = viewers.without;
    if (oldest !== undefined && viewers.without.size > MAX_WITHOUT) viewers.without.delete(oldest);
    return NO_OWN;
  }
  const own = ownOf(memos, hosts, viewer);
  viewers.own.set(viewer.own, own);
  return own;
}

/** Adds to one of several lists. */
export function addTo<T>(lists: Map<string, T[]>, domain: string, item: T): void {
  const list = lists.get(domain);
  if (list === undefined) lists.set(domain, [item]);
  else list.push(item);
}

function ownOf(memos: Memos, hosts: readonly IndexedHost[], viewer: Viewer): OwnHosts {
  const found = hosts.flatMap((host) => {
    const domains = serviceDomains(memos, host.entry.service, host.port, viewer);
    return domains.filter((domain) => !hasDomain(host.domains, domain)).map((domain) => [domain, host] as const);
  });
  const byDomain = new Map<string, IndexedHost[]>();
  for (const [domain, host] of found) addTo(byDomain, domain, host);
  return { hosts: new Set(hosts), domains: found.map(([domain]) => domain), byDomain };
}
