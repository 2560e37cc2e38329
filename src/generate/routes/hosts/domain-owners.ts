/**
 * Candidates for the domains of a route configuration: first the virtual services in precedence order, then the
 * services without one. `domains/ownership.ts` decides which candidate owns a domain. Namespaces that see the same
 * services and virtual services share the candidates; only the short names of a namespace's own services differ.
 */
import type { Memos } from '../../../core/memo.ts';
import { hostMatches, isWildcardHost, type ResolvedVirtualService, type Service } from '../../../model/index.ts';
import {
  type CandidateDomains,
  candidateDomains,
  type DomainIndex,
  DomainOwners,
  domainIndex,
  hostDomains,
  type IndexedHost,
  type SidecarCandidate,
  type Viewer,
} from '../../domains/index.ts';
import type { ServicePortEntry } from '../../indexes/index.ts';
import { type Facts, noteAll, recorded, type Services, type VirtualServices } from '../../reads/index.ts';
import { contextKey, type RouteContext } from '../context.ts';
import { defaultRoute, hasRoutes, virtualServiceRoutes } from '../http-route.ts';
import type { Route } from '../messages.ts';
import {
  areUnchanged,
  type CachedVirtualHosts,
  cachedVirtualHosts,
  type Read,
  recording,
  type VirtualHostInputs,
} from './virtual-host-cache.ts';

export interface CandidateSources {
  /** HTTP services with the port that serves them, each host once. */
  readonly entries: readonly ServicePortEntry[];
  /** All services of the scope, on whatever port. */
  readonly services: Services;
  readonly virtualServices: VirtualServices;
}

/** A virtual host before its remaining domains are known. */
export interface Candidate extends SidecarCandidate {
  readonly name: string;
  /** The port that clients use, and the default port of destinations. */
  readonly port: number;
  readonly objects: VirtualHostInputs['objects'];
  readonly owner: ResolvedVirtualService | Service;
  readonly routes: (context: RouteContext) => Route[];
  readonly cached: () => CachedVirtualHosts;
}

export interface CandidateSet extends CandidateDomains {
  /** Precedence order. */
  readonly candidates: readonly Candidate[];
  /** Sorted by name, if they are disjoint. */
  readonly ordered: readonly Candidate[];
  /** Finds the owners of single domains. */
  readonly owners: DomainOwners<Candidate>;
}

/** Computes what is needed, for all virtual hosts or for a few. */
class Candidates implements CandidateSet {
  readonly candidates: readonly Candidate[];
  readonly #domains: CandidateDomains;
  #ordered: readonly Candidate[] | undefined;
  #owners: DomainOwners<Candidate> | undefined;

  constructor(index: DomainIndex, candidates: readonly Candidate[]) {
    this.candidates = candidates;
    this.#domains = candidateDomains(index, candidates);
  }

  get index(): DomainIndex {
    return this.#domains.index;
  }

  get disjoint(): boolean {
    return this.#domains.disjoint;
  }

  get otherDomains(): ReadonlySet<string> {
    return this.#domains.otherDomains;
  }

  get ordered(): readonly Candidate[] {
    this.#ordered ??= inOrder(this.candidates, this.index);
    return this.#ordered;
  }

  get owners(): DomainOwners<Candidate> {
    this.#owners ??= new DomainOwners(this.index, this.candidates);
    return this.#owners;
  }
}

interface CachedCandidates {
  readonly services: Services;
  readonly virtualServices: VirtualServices;
  readonly key: string;
  /** What was looked up for them, which may depend on the source of the requests. */
  readonly reads: readonly Read[];
  readonly set: CandidateSet;
  readonly facts: Facts;
}

/** Maximum cached lists of virtual services for the same services. The oldest is evicted first. */
const MAX_SETS = 8;

/** All candidates. */
export function candidateSet(sources: CandidateSources, context: RouteContext, viewer: Viewer): CandidateSet {
  const { services, virtualServices } = sources;
  const index = domainIndex(context.memos, sources.entries, context.port, viewer);
  const key = contextKey(context);
  const known = context.memos.weak<DomainIndex, CachedCandidates[]>('candidates').get(index, () => []);
  for (const each of known) {
    if (each.virtualServices !== virtualServices || each.services !== services || each.key !== key) continue;
    if (!areUnchanged(each.reads, context.lookups)) continue;
    noteAll(each.facts);
    return each.set;
  }
  const reads: Read[] = [];
  const { value: candidates, facts } = recorded(() => [
    ...candidatesOf(sources, index, { ...context, lookups: recording(context.lookups, reads) }, viewer),
  ]);
  const set = new Candidates(index, candidates);
  if (known.length >= MAX_SETS) known.shift();
  known.push({ services, virtualServices, key, reads, set, facts });
  return set;
}

/** The candidate for one service; other hosts of the virtual services do not affect it. */
export function toCandidate(
  sources: CandidateSources,
  host: string,
  context: RouteContext,
  viewer: Viewer,
): Candidate | undefined {
  const index = domainIndex(context.memos, sources.entries, context.port, viewer);
  const about = sources.virtualServices.for(host);
  for (const candidate of candidatesOf({ ...sources, virtualServices: about }, index, context, viewer)) {
    if (candidate.host === host) return candidate;
  }
  return undefined;
}

function* candidatesOf(
  sources: CandidateSources,
  index: DomainIndex,
  context: RouteContext,
  viewer: Viewer,
): Generator<Candidate> {
  const taken = new Set<string>();
  for (const [virtualService, found] of sources.virtualServices.at(context.port, (each) =>
    servicesOf(each, index.hosts),
  )) {
    const routes = (c: RouteContext) => virtualServiceRoutes(virtualService, c);
    const owner = virtualService;
    for (const indexed of found.services) {
      const { name, port, domains, entry } = indexed;
      const { service } = entry;
      if (!hasRoutes(virtualService, { ...context, port })) continue;
      taken.add(service.hostname);
      const candidate = candidatesOfOwner(context.memos, virtualService).get(indexed);
      if (candidate !== undefined) {
        yield candidate;
        continue;
      }
      // The cache is attached to the first: a virtual service for many hosts must not hold them all.
      const [objects, cached] =
        found.services.length === 1
          ? ([[virtualService, service], () => cachedVirtualHosts(context.memos, virtualService)] as const)
          : ([[service, virtualService], () => cachedVirtualHosts(context.memos, service)] as const);
      yield keep(context.memos, virtualService, {
        host: service.hostname,
        name,
        indexed,
        port,
        domains,
        objects,
        owner,
        routes,
        cached,
      });
    }
    if (found.otherHosts.length === 0 || !hasRoutes(virtualService, context)) continue;
    for (const host of found.otherHosts) {
      if (servesOtherwise(sources.services, host, context.port)) continue;
      const { port } = context;
      const cached = () => cachedVirtualHosts(context.memos, virtualService);
      const shape = {
        host,
        name: `${host}:${port}`,
        indexed: undefined,
        port,
        domains: hostDomains(host, port, viewer),
      };
      yield { ...shape, objects: [virtualService], owner, routes, cached };
    }
  }
  const ofServices = context.memos.weak<IndexedHost, Candidate>('candidates of services');
  for (const indexed of index.hosts.values())
    if (!taken.has(indexed.entry.service.hostname))
      yield ofServices.get(indexed, () => serviceCandidate(indexed, context.memos));
}

/** For a service that no virtual service is about. */
function serviceCandidate(indexed: IndexedHost, memos: Memos): Candidate {
  const { name, port, domains, entry } = indexed;
  const { service } = entry;
  const host = service.hostname;
  const routes = (context: RouteContext) => [defaultRoute(host, entry.port.port, context)];
  const cached = () => cachedVirtualHosts(memos, service);
  return { host, name, indexed, port, domains, objects: [service, entry.port], owner: service, routes, cached };
}

/** A virtual service's candidates for services: always the same objects, so that unchanged ones are recognized. */
function candidatesOfOwner(memos: Memos, owner: ResolvedVirtualService): WeakMap<IndexedHost, Candidate> {
  return memos
    .weak<ResolvedVirtualService, WeakMap<IndexedHost, Candidate>>('candidates of virtual services')
    .get(owner, () => new WeakMap());
}

function keep(
  memos: Memos,
  owner: ResolvedVirtualService,
  candidate: Candidate & { readonly indexed: IndexedHost },
): Candidate {
  candidatesOfOwner(memos, owner).set(candidate.indexed, candidate);
  return candidate;
}

/** The services on the port that match a virtual service, and its hosts that are not services. */
function servicesOf(
  { hosts }: ResolvedVirtualService,
  byHost: ReadonlyMap<string, IndexedHost>,
): { readonly services: readonly IndexedHost[]; readonly otherHosts: readonly string[] } {
  const services = new Map<string, IndexedHost>();
  const otherHosts: string[] = [];
  for (const host of hosts) {
    const exact = byHost.get(host);
    if (exact !== undefined) {
      services.set(host, exact);
      continue;
    }
    let matched = false;
    if (isWildcardHost(host)) {
      for (const [name, indexed] of byHost) {
        if (!hostMatches(host, name)) continue;
        matched = true;
        services.set(name, indexed);
      }
    }
    if (!matched) otherHosts.push(host);
  }
  return { services: [...services.values()], otherHosts };
}

/**
 * Whether a host (or for a wildcard, any matching host) is a service with another protocol than HTTP on the port. A
 * service without the port does not count: routes may have a destination at another port.
 */
function servesOtherwise(services: Services, host: string, port: number): boolean {
  const has = (service: Service | undefined) => service?.ports.some((each) => each.port === port) === true;
  if (!isWildcardHost(host)) return has(services.get(host));
  return services.haveAnyPort(host, port);
}

/** Sorted by name. The order of services is known, so that only the others are sorted. */
function inOrder(candidates: readonly Candidate[], index: DomainIndex): readonly Candidate[] {
  const byHost = new Map<IndexedHost, Candidate>();
  const others: Candidate[] = [];
  for (const candidate of candidates) {
    if (candidate.indexed === undefined) others.push(candidate);
    else byHost.set(candidate.indexed, candidate);
  }
  const ordered = index.ordered.flatMap((host) => byHost.get(host) ?? []);
  if (others.length === 0) return ordered;
  return [...ordered, ...others].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
