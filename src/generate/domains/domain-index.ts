/**
 * Which domains the services of a route configuration have, shared by all namespaces that see the same services. The
 * owner of a domain only matters if there are two candidates. This index shows that there are none without examining
 * every domain of every service again: for different namespaces, the domains only differ in the short names of the
 * namespace's own services.
 */
import type { Memos } from '../../core/memo.ts';
import { PMap } from '../../core/pmap.ts';
import type { ServicePortEntry } from '../indexes/index.ts';
import { foreignViewer, isOwn, serviceDomains, type Viewer, viewerKey } from './service-domains.ts';

interface OwnHosts {
  readonly hosts: ReadonlySet<IndexedHost>;
  /** The domains that only apply in the service's own namespace. */
  readonly domains: readonly string[];
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
    const hosts = entries.map((entry) => indexedHost(memos, entry, port, foreignViewer(viewer)));
    const before = entries.length < LARGE ? undefined : latestIndexes(memos).get(key);
    index = makeIndex(hosts, before !== undefined && isAlike(before, hosts) ? before : undefined);
    known.set(key, index);
  }
  if (entries.length >= LARGE) noteLatest(latestIndexes(memos), key, index);
  return index;
}

/**
 * Smaller indexes are computed from scratch: there are many of them, such as those of services with a port of their
 * own.
 */
const LARGE = 64;

/** Whether most of an index may be reused. */
function isAlike({ ordered }: DomainIndex, list: readonly IndexedHost[]): boolean {
  return Math.abs(ordered.length - list.length) < list.length / 4;
}

/** The last large index of each port. The next one usually differs by one service. */
function latestIndexes(memos: Memos): Map<string, DomainIndex> {
  return memos.weak<Memos, Map<string, DomainIndex>>('latest domain indexes').get(memos, () => new Map());
}

/** Maximum remembered ports; the least recently used is evicted first. */
const MAX_LATEST = 64;

function noteLatest(latest: Map<string, DomainIndex>, key: string, index: DomainIndex): void {
  latest.delete(key);
  latest.set(key, index);
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

function makeIndex(list: readonly IndexedHost[], before: DomainIndex | undefined): DomainIndex {
  const hosts = new Map(list.map((host) => [host.entry.service.hostname, host]));
  const domains = countedDomains(list, before);
  let listed = 0;
  for (const host of list) listed += host.domains.length;
  return { hosts, ordered: inOrder(list), disjoint: domains.size === listed, domains };
}

/**
 * The number of services with each domain, computed from the counts of the previous index, which usually differs only a
 * little.
 */
function countedDomains(list: readonly IndexedHost[], before: DomainIndex | undefined): DomainIndex['domains'] {
  const counts = before?.domains ?? PMap.empty<number>();
  const gone = new Set(before?.ordered);
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

const NO_OWN: OwnHosts = { hosts: new Set(), domains: [] };

/**
 * The viewer's own services in an index. Results for viewers without services are not cached: proxies choose the
 * namespace that they state, so the cache could grow without limit.
 */
export function ownHosts(memos: Memos, index: DomainIndex, viewer: Viewer): OwnHosts {
  const known = memos.weak<DomainIndex, Map<string, OwnHosts>>('own hosts').get(index, () => new Map());
  let own = known.get(viewer.own);
  if (own === undefined) {
    const hosts = [...index.hosts.values()].filter(({ entry }) => isOwn(entry.service, viewer));
    if (hosts.length === 0) return NO_OWN;
    const domains = hosts.flatMap(({ entry, port, domains: ofAll }) =>
      serviceDomains(memos, entry.service, port, viewer).filter((domain) => !ofAll.includes(domain)),
    );
    own = { hosts: new Set(hosts), domains };
    known.set(viewer.own, own);
  }
  return own;
}
