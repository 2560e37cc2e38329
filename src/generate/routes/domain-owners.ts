/**
 * Who claims domains of a route configuration: first the virtual services in precedence order, then the services that
 * none of them took. Who gets a domain that several claim is decided in `domains/ownership.ts`. Namespaces that see the
 * same services and virtual services share the claims; only the short names of a namespace's own services are its own.
 */
import type { Memos } from '../../core/memo.ts';
import { hostMatches, isWildcardHost } from '../../model/hosts.ts';
import type { ResolvedVirtualService, Service } from '../../model/types.ts';
import {
  type ClaimedDomains,
  claimedDomains,
  type DomainIndex,
  domainIndex,
  hostDomains,
  type IndexedHost,
  type SidecarClaim,
  type Viewer,
} from '../domains/index.ts';
import type { ServicePortEntry } from '../indexes/index.ts';
import { type Facts, noteAll, recorded, type Services, type VirtualServices } from '../reads/index.ts';
import { contextKey, type RouteContext, type RouteLookups } from './context.ts';
import { defaultRoute, hasRoutes, virtualServiceRoutes } from './http-route.ts';
import type { Route } from './messages.ts';
import { type KeptVirtualHosts, keptVirtualHosts, type VirtualHostInputs } from './virtual-host-cache.ts';

/** What the claims of one route configuration are made of. */
export interface ClaimSources {
  /** HTTP services with the port that serves them, each host once. */
  readonly entries: readonly ServicePortEntry[];
  /** All services of the scope, on whatever port. */
  readonly services: Services;
  readonly virtualServices: VirtualServices;
}

/** A virtual host before it is known which of its domains it keeps. */
export interface Claim extends SidecarClaim {
  /** Of the virtual host: host and port. */
  readonly name: string;
  /** What clients name as the port, and where requests go that say none. */
  readonly port: number;
  readonly made: VirtualHostInputs['made'];
  readonly owner: ResolvedVirtualService | Service;
  readonly routes: (context: RouteContext) => Route[];
  readonly kept: KeptVirtualHosts;
}

export interface ClaimSet extends ClaimedDomains {
  /** Precedence order. */
  readonly claims: readonly Claim[];
  /** In the order of their names, where they are disjoint. */
  readonly ordered: readonly Claim[];
}

interface Known {
  readonly services: Services;
  readonly virtualServices: VirtualServices;
  readonly key: string;
  readonly set: ClaimSet;
  /** What was read to find them. */
  readonly facts: Facts;
}

/** Lists of virtual services that namespaces see for the same services. The oldest goes first. */
const MAX_SETS = 8;

/** All claims. They are kept unless finding them meant asking about those who send the requests. */
export function claimSet(sources: ClaimSources, context: RouteContext, viewer: Viewer): ClaimSet {
  const { services, virtualServices } = sources;
  const book = domainIndex(context.memos, sources.entries, context.port, viewer);
  const key = contextKey(context);
  const known = context.memos.weak<DomainIndex, Known[]>('claims of books').get(book, () => []);
  for (const each of known) {
    if (each.virtualServices !== virtualServices || each.services !== services || each.key !== key) continue;
    noteAll(each.facts);
    return each.set;
  }
  const asked = { any: false };
  const { value: claims, facts } = recorded(() => [
    ...claimsOf(sources, book, { ...context, lookups: noting(context.lookups, asked) }),
  ]);
  const set = { claims, ...claimedDomains(book, claims), ordered: inOrder(claims, book) };
  if (asked.any) return set;
  if (known.length >= MAX_SETS) known.shift();
  known.push({ services, virtualServices, key, set, facts });
  return set;
}

/** The claim for one service; what other hosts the virtual services speak of does not matter to it. */
export function claimOf(sources: ClaimSources, host: string, context: RouteContext, viewer: Viewer): Claim | undefined {
  const book = domainIndex(context.memos, sources.entries, context.port, viewer);
  const about = sources.virtualServices.for(host);
  for (const claim of claimsOf({ ...sources, virtualServices: about }, book, context)) {
    if (claim.host === host) return claim;
  }
  return undefined;
}

/** Lookups that note whether anything is asked. */
function noting(lookups: RouteLookups, asked: { any: boolean }): RouteLookups {
  function note<T>(answer: T): T {
    asked.any = true;
    return answer;
  }
  return {
    onlyPort: (host) => note(lookups.onlyPort(host)),
    consistentHash: (host, subset, port) => note(lookups.consistentHash(host, subset, port)),
    isFrom: (namespace) => note(lookups.isFrom(namespace)),
    hasLabels: (labels) => note(lookups.hasLabels(labels)),
  };
}

function* claimsOf(sources: ClaimSources, book: DomainIndex, context: RouteContext): Generator<Claim> {
  const taken = new Set<string>();
  for (const [virtualService, found] of sources.virtualServices.at(context.port, (each) =>
    servicesOf(each, book.hosts),
  )) {
    const routes = (c: RouteContext) => virtualServiceRoutes(virtualService, c);
    const owner = virtualService;
    for (const booked of found.services) {
      const { name, port, domains, entry } = booked;
      const { service } = entry;
      if (!hasRoutes(virtualService, { ...context, port })) continue;
      taken.add(service.hostname);
      const claim = claimsOfOwner(context.memos, virtualService).get(booked);
      if (claim !== undefined) {
        yield claim;
        continue;
      }
      // What is kept hangs on the first: a virtual service for many hosts must not have to remember them all.
      const [made, kept] =
        found.services.length === 1
          ? ([[virtualService, service], keptVirtualHosts(context.memos, virtualService)] as const)
          : ([[service, virtualService], keptVirtualHosts(context.memos, service)] as const);
      yield keep(context.memos, { host: service.hostname, name, booked, port, domains, made, owner, routes, kept });
    }
    if (found.otherHosts.length === 0 || !hasRoutes(virtualService, context)) continue;
    for (const host of found.otherHosts) {
      if (servesOtherwise(sources.services, host, context.port)) continue;
      const { port } = context;
      const kept = keptVirtualHosts(context.memos, virtualService);
      const shape = { host, name: `${host}:${port}`, booked: undefined, port, domains: hostDomains(host, port) };
      yield { ...shape, made: [virtualService], owner, routes, kept };
    }
  }
  for (const booked of book.hosts.values()) {
    const { name, port, domains, entry } = booked;
    const { service } = entry;
    const host = service.hostname;
    if (taken.has(host)) continue;
    const claim = claimsOfOwner(context.memos, service).get(booked);
    if (claim !== undefined) {
      yield claim;
      continue;
    }
    const routes = (c: RouteContext) => [defaultRoute(host, entry.port.port, c)];
    const made = [service, entry.port] as const;
    const kept = keptVirtualHosts(context.memos, service);
    yield keep(context.memos, { host, name, booked, port, domains, made, owner: service, routes, kept });
  }
}

/**
 * The claims of an owner for services: the same objects each time, by which it is seen that nothing of them changed.
 */
function claimsOfOwner(memos: Memos, owner: Claim['owner']): WeakMap<IndexedHost, Claim> {
  return memos.weak<Claim['owner'], WeakMap<IndexedHost, Claim>>('claims of owners').get(owner, () => new WeakMap());
}

function keep(memos: Memos, claim: Claim & { readonly booked: IndexedHost }): Claim {
  claimsOfOwner(memos, claim.owner).set(claim.booked, claim);
  return claim;
}

/** The services on the port that a virtual service speaks of, and its hosts that are none. */
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
      for (const [name, booked] of byHost) {
        if (!hostMatches(host, name)) continue;
        matched = true;
        services.set(name, booked);
      }
    }
    if (!matched) otherHosts.push(host);
  }
  return { services: [...services.values()], otherHosts };
}

/**
 * Whether a host, or for a wildcard some host that it covers, is a service that serves something else than HTTP on the
 * port. A service that does not have the port at all is as good as none there: routes may lead from it to a port that
 * is.
 */
function servesOtherwise(services: Services, host: string, port: number): boolean {
  const has = (service: Service | undefined) => service?.ports.some((each) => each.port === port) === true;
  if (!isWildcardHost(host)) return has(services.get(host));
  return services.haveAnyPort(host, port);
}

/** By name. The order of services is known, so that only the others are sorted in. */
function inOrder(claims: readonly Claim[], book: DomainIndex): readonly Claim[] {
  const byHost = new Map<IndexedHost, Claim>();
  const others: Claim[] = [];
  for (const claim of claims) {
    if (claim.booked === undefined) others.push(claim);
    else byHost.set(claim.booked, claim);
  }
  const ordered = book.ordered.flatMap((host) => byHost.get(host) ?? []);
  if (others.length === 0) return ordered;
  return [...ordered, ...others].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
