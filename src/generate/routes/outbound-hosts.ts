/**
 * The virtual hosts of one sidecar route configuration: first the virtual services in precedence order, then the services that
 * none of them took, then where everything else goes. A domain belongs to the first that claims it.
 */

import { hostMatches, isWildcardHost } from '../../model/hosts.ts';
import type { ResolvedVirtualService, Scope } from '../../model/types.ts';
import { PASSTHROUGH_CLUSTER } from '../names.ts';
import type { ServicePortEntry } from '../service-index.ts';
import { timeoutFields } from './action.ts';
import type { RouteContext } from './context.ts';
import { type BookedHost, type DomainBook, disjointClaims, domainBook } from './domain-book.ts';
import { hostDomains, serviceDomains, type Viewer, viewerOf } from './domains.ts';
import { defaultRoute, hasRoutes, virtualServiceRoutes } from './http-route.ts';
import { ANY_REQUEST } from './match.ts';
import type { Route, VirtualHostMessage } from './messages.ts';
import { encodeVirtualHost } from './route-configuration.ts';
import { contextKey, encodedVirtualHost, type VirtualHostInputs } from './virtual-host-cache.ts';

/** What one route configuration is made of. */
export interface OutboundHosts {
  /** HTTP services with the port that serves them, each host once. */
  readonly entries: readonly ServicePortEntry[];
  /** Whether a host, or for a wildcard some host that it covers, is a service: on whatever port. */
  readonly isService: (host: string) => boolean;
  /** In precedence order. */
  readonly virtualServices: readonly ResolvedVirtualService[];
  readonly dnsDomain: string;
}

export interface EncodedHosts {
  /** Pieces of the route configuration in the order of their names, without the catch-all. */
  readonly virtualHosts: readonly Uint8Array[];
  /** One line for each domain that was claimed twice. */
  readonly duplicates: readonly string[];
  /** Whether some virtual host takes every domain that no other has. */
  readonly takesAll: boolean;
}

/** Clients of the port that plain HTTP has by default may use virtual hosts that are no services. */
const DEFAULT_HTTP_PORT = 80;

/** A virtual host before it is known which of its domains it keeps. */
interface Claim {
  readonly host: string;
  readonly name: string;
  /** The service that it is for; undefined for a host that is none. */
  readonly booked: BookedHost | undefined;
  /** What clients name as the port, and where requests go that say none. */
  readonly port: number;
  readonly domains: readonly string[];
  readonly made: VirtualHostInputs['made'];
  readonly owner: ResolvedVirtualService | ServicePortEntry['service'];
  readonly routes: (context: RouteContext) => Route[];
}

/** The virtual hosts that all services of a port share. */
export function sharedHosts(hosts: OutboundHosts, context: RouteContext): EncodedHosts {
  const viewer = viewerOf(hosts.dnsDomain);
  const book = domainBook(hosts.entries, context.port, viewer);
  const claimed = [...claims(hosts, book, viewer, context)];
  const key = contextKey(context);
  const disjoint = disjointClaims(book, claimed, viewer);
  if (disjoint !== undefined) {
    const encoded = inOrder(claimed, book).map((claim) => encodeClaim(claim.domains, claim, context, key));
    return { virtualHosts: encoded, duplicates: [], takesAll: disjoint.takesAll };
  }
  const duplicates: string[] = [];
  const owners = new Map<string, Claim['owner']>();
  const encoded: [name: string, bytes: Uint8Array][] = [];
  for (const claim of claimed) {
    const domains = freeDomains(claim, owners, duplicates);
    if (domains.length === 0) continue;
    encoded.push([claim.name, encodeClaim(domains, claim, context, key)]);
  }
  encoded.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return { virtualHosts: encoded.map(([, bytes]) => bytes), duplicates, takesAll: owners.has('*') };
}

/** The one virtual host of a service that has its listener for itself: whatever the `Host` header says. */
export function singleHost(hosts: OutboundHosts, host: string, context: RouteContext): Uint8Array | undefined {
  const viewer = viewerOf(hosts.dnsDomain);
  const book = domainBook(hosts.entries, context.port, viewer);
  for (const claim of claims(hosts, book, viewer, context)) {
    if (claim.host === host) return encodeClaim(['*'], claim, context, contextKey(context));
  }
  return undefined;
}

/** Claims that have no domain in common, by name. The places of services are known, so that only the others are sorted in. */
function inOrder(claimed: readonly Claim[], book: DomainBook): readonly Claim[] {
  const places = new Array<Claim | undefined>(book.hosts.size).fill(undefined);
  const others: Claim[] = [];
  for (const claim of claimed) {
    if (claim.booked === undefined) others.push(claim);
    else places[claim.booked.place] = claim;
  }
  const ordered = places.filter((claim) => claim !== undefined);
  if (others.length === 0) return ordered;
  return [...ordered, ...others].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function* claims(hosts: OutboundHosts, book: DomainBook, viewer: Viewer, context: RouteContext): Generator<Claim> {
  const taken = new Set<string>();
  for (const virtualService of hosts.virtualServices) {
    const found = servicesOf(virtualService, book.hosts);
    const routes = (c: RouteContext) => virtualServiceRoutes(virtualService, c);
    const owner = virtualService;
    for (const booked of found.services) {
      const { name, port, entry } = booked;
      const { service } = entry;
      const host = service.hostname;
      if (!hasRoutes(virtualService, port === context.port ? context : { ...context, port })) continue;
      const domains = serviceDomains(service, port, viewer);
      taken.add(host);
      // What is kept hangs on the first: a virtual service for many hosts must not have to remember them all.
      const made =
        found.services.length === 1 ? ([virtualService, service] as const) : ([service, virtualService] as const);
      yield { host, name, booked, port, domains, made, owner, routes };
    }
    if (found.services.length === 0 && context.port !== DEFAULT_HTTP_PORT) continue;
    if (found.otherHosts.length === 0 || !hasRoutes(virtualService, context)) continue;
    for (const host of found.otherHosts) {
      if (hosts.isService(host)) continue;
      const { port } = context;
      const name = `${host}:${port}`;
      const domains = hostDomains(host, port);
      yield { host, name, booked: undefined, port, domains, made: [virtualService], owner, routes };
    }
  }
  for (const booked of book.hosts.values()) {
    const { name, port, entry } = booked;
    const { service } = entry;
    const host = service.hostname;
    if (taken.has(host)) continue;
    const domains = serviceDomains(service, port, viewer);
    const routes = (c: RouteContext) => [defaultRoute(host, entry.port.port, c)];
    yield { host, name, booked, port, domains, made: [service, entry.port], owner: service, routes };
  }
}

/** The services on the port that a virtual service speaks of, and its hosts that are none. */
function servicesOf(
  { hosts }: ResolvedVirtualService,
  byHost: ReadonlyMap<string, BookedHost>,
): { readonly services: readonly BookedHost[]; readonly otherHosts: readonly string[] } {
  const services = new Map<string, BookedHost>();
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

/** The domains that no earlier virtual host has; they are the claim's from now on. */
function freeDomains(claim: Claim, owners: Map<string, Claim['owner']>, duplicates: string[]): readonly string[] {
  const clashes = claim.domains.filter((domain) => owners.has(domain));
  const free = clashes.length === 0 ? claim.domains : claim.domains.filter((domain) => !owners.has(domain));
  for (const domain of free) owners.set(domain, claim.owner);
  const [first] = clashes;
  const owner = first === undefined ? undefined : owners.get(first);
  if (first !== undefined && owner !== undefined) {
    duplicates.push(`${ownerText(claim.owner)}: domain ${first} is already taken by ${ownerText(owner)}`);
  }
  return free;
}

function ownerText(owner: Claim['owner']): string {
  return 'hosts' in owner ? `VirtualService ${owner.namespace}/${owner.name}` : `service ${owner.key}`;
}

/** @param contextText {@link contextKey} of the context */
function encodeClaim(
  domains: readonly string[],
  { name, made, port, routes }: Claim,
  context: RouteContext,
  contextText: string,
): Uint8Array {
  // The port stands in the name.
  return encodedVirtualHost({ made, name, domains, key: contextText }, context.lookups, (lookups) =>
    virtualHost(name, domains, routes({ ...context, port, lookups })),
  );
}

function virtualHost(name: string, domains: readonly string[], routes: readonly Route[]): VirtualHostMessage {
  return { name, domains, routes, includeRequestAttemptCount: true };
}

/** Where requests to unknown hosts go: on to where they were going, or refused with 502 so that the reason is seen. */
export function catchAllHost(policy: Scope['outboundTrafficPolicy']): Uint8Array {
  const allowed = policy === 'ALLOW_ANY';
  const route: Route = allowed
    ? { name: 'allow_any', match: ANY_REQUEST, route: { cluster: PASSTHROUGH_CLUSTER, ...timeoutFields(0) } }
    : { name: 'block_all', match: ANY_REQUEST, directResponse: { status: 502 } };
  return encodeVirtualHost(virtualHost(allowed ? 'allow_any' : 'block_all', ['*'], [route]));
}
