/**
 * The virtual hosts of one sidecar route configuration: first the virtual services in precedence order, then the services that
 * none of them took, then where everything else goes. A domain belongs to the first that claims it.
 */

import { hostMatches, isWildcardHost } from '../../model/hosts.ts';
import type { ResolvedVirtualService, Scope } from '../../model/types.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import { PASSTHROUGH_CLUSTER } from '../names.ts';
import type { ServicePortEntry } from '../service-index.ts';
import { timeoutFields } from './action.ts';
import type { RouteContext } from './context.ts';
import { hostDomains, serviceDomains } from './domains.ts';
import { defaultRoute, hasRoutes, virtualServiceRoutes } from './http-route.ts';
import { ANY_REQUEST } from './match.ts';
import type { Route, VirtualHostMessage } from './messages.ts';
import { contextKey, encodedVirtualHost } from './virtual-host-cache.ts';

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
  /** In the order of their names, without the catch-all. */
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
  /** What clients name as the port, and where requests go that say none. */
  readonly port: number;
  readonly domains: readonly string[];
  readonly made: readonly [object, ...object[]];
  readonly owner: string;
  readonly routes: (context: RouteContext) => Route[];
}

/** The virtual hosts that all services of a port share. */
export function sharedHosts(hosts: OutboundHosts, context: RouteContext): EncodedHosts {
  const duplicates: string[] = [];
  const owners = new Map<string, string>();
  const encoded: [name: string, bytes: Uint8Array][] = [];
  for (const claim of claims(hosts, context)) {
    const domains = freeDomains(claim, owners, duplicates);
    if (domains.length === 0) continue;
    encoded.push([nameOf(claim), encodeClaim(domains, claim, context)]);
  }
  encoded.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return { virtualHosts: encoded.map(([, bytes]) => bytes), duplicates, takesAll: owners.has('*') };
}

/** The one virtual host of a service that has its listener for itself: whatever the `Host` header says. */
export function singleHost(hosts: OutboundHosts, host: string, context: RouteContext): Uint8Array | undefined {
  const claim = [...claims(hosts, context)].find((candidate) => candidate.host === host);
  return claim === undefined ? undefined : encodeClaim(['*'], claim, context);
}

function nameOf({ host, port }: Claim): string {
  return `${host}:${port}`;
}

function* claims(hosts: OutboundHosts, context: RouteContext): Generator<Claim> {
  const { dnsDomain, entries } = hosts;
  const byHost = new Map(entries.map((entry) => [entry.service.hostname, entry]));
  const taken = new Set<string>();
  for (const virtualService of hosts.virtualServices) {
    const found = servicesOf(virtualService, byHost);
    const routes = (c: RouteContext) => virtualServiceRoutes(virtualService, c);
    const owner = `VirtualService ${virtualService.namespace}/${virtualService.name}`;
    for (const { service, port } of found.services) {
      const clientPort = context.port || port.port;
      if (!hasRoutes(virtualService, { ...context, port: clientPort })) continue;
      const domains = serviceDomains(service, clientPort, dnsDomain);
      taken.add(service.hostname);
      yield { host: service.hostname, port: clientPort, domains, made: [virtualService, service], owner, routes };
    }
    if (found.services.length === 0 && context.port !== DEFAULT_HTTP_PORT) continue;
    if (found.otherHosts.length === 0 || !hasRoutes(virtualService, context)) continue;
    for (const host of found.otherHosts) {
      if (hosts.isService(host)) continue;
      const domains = hostDomains(host, context.port);
      yield { host, port: context.port, domains, made: [virtualService], owner, routes };
    }
  }
  for (const { service, port } of entries) {
    if (taken.has(service.hostname)) continue;
    const clientPort = context.port || port.port;
    yield {
      host: service.hostname,
      port: clientPort,
      domains: serviceDomains(service, clientPort, dnsDomain),
      made: [service, port],
      owner: `service ${service.key}`,
      routes: (c) => [defaultRoute(service.hostname, port.port, c)],
    };
  }
}

/** The services on the port that a virtual service speaks of, and its hosts that are none. */
function servicesOf(
  { hosts }: ResolvedVirtualService,
  byHost: ReadonlyMap<string, ServicePortEntry>,
): { readonly services: readonly ServicePortEntry[]; readonly otherHosts: readonly string[] } {
  const services = new Map<string, ServicePortEntry>();
  const otherHosts: string[] = [];
  for (const host of hosts) {
    const exact = byHost.get(host);
    if (exact !== undefined) {
      services.set(host, exact);
      continue;
    }
    let matched = false;
    if (isWildcardHost(host)) {
      for (const [name, entry] of byHost) {
        if (!hostMatches(host, name)) continue;
        matched = true;
        services.set(name, entry);
      }
    }
    if (!matched) otherHosts.push(host);
  }
  return { services: [...services.values()], otherHosts };
}

/** The domains that no earlier virtual host has; they are the claim's from now on. */
function freeDomains(claim: Claim, owners: Map<string, string>, duplicates: string[]): readonly string[] {
  const clashes = claim.domains.filter((domain) => owners.has(domain));
  const free = clashes.length === 0 ? claim.domains : claim.domains.filter((domain) => !owners.has(domain));
  for (const domain of free) owners.set(domain, claim.owner);
  const [first] = clashes;
  if (first !== undefined) {
    duplicates.push(`${claim.owner}: domain ${first} is already taken by ${owners.get(first)}`);
  }
  return free;
}

function encodeClaim(domains: readonly string[], claim: Claim, context: RouteContext): Uint8Array {
  const name = nameOf(claim);
  const key = [name, domains.join(' '), contextKey(context)].join('\n');
  return encodedVirtualHost({ made: claim.made, key }, context.lookups, (lookups) =>
    virtualHost(name, domains, claim.routes({ ...context, port: claim.port, lookups })),
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
  return encode(envoy.config.route.v3.VirtualHost, virtualHost(allowed ? 'allow_any' : 'block_all', ['*'], [route]));
}
