/**
 * The virtual hosts of one sidecar route configuration: those that are claimed (see `claims.ts`), then where everything else goes. A
 * domain belongs to the first that claims it.
 */

import { compareCreated } from '../../model/order.ts';
import type { Scope } from '../../model/types.ts';
import { PASSTHROUGH_CLUSTER } from '../common/index.ts';
import { ownHosts, type Viewer, viewerOf } from '../domains/index.ts';
import { timeoutFields } from './action.ts';
import { ClaimEncoder } from './claim-encodings.ts';
import { type Claim, type ClaimSet, type ClaimSources, claimOf, claimSet } from './claims.ts';
import type { RouteContext } from './context.ts';
import { ANY_REQUEST } from './match.ts';
import type { Route } from './messages.ts';
import { encodeVirtualHost } from './route-configuration.ts';
import { virtualHost } from './virtual-host.ts';

/** What one route configuration is made of. */
export interface OutboundHosts extends ClaimSources {
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

const NO_DUPLICATES: readonly string[] = [];
const ANY_DOMAIN: readonly string[] = ['*'];

/** The virtual hosts that all services of a port share. */
export function sharedHosts(hosts: OutboundHosts, context: RouteContext): EncodedHosts {
  const viewer = viewerOf(hosts.dnsDomain);
  const set = claimSet(hosts, context, viewer);
  const encoder = new ClaimEncoder(context, viewer);
  if (isDisjoint(set, viewer)) {
    const takesAll = set.book.domains.has('*') || set.otherDomains.has('*');
    return { virtualHosts: encoder.encodeAll(set), duplicates: NO_DUPLICATES, takesAll };
  }
  const { hosts: own } = ownHosts(set.book, viewer);
  const duplicates: string[] = [];
  const owners = new Map<string, Claim['owner']>();
  const encoded: [name: string, bytes: Uint8Array][] = [];
  for (const claim of set.claims.toSorted(byPrecedence)) {
    const domains = freeDomains(claim, encoder.domainsOf(claim, own), owners, duplicates);
    if (domains.length > 0) encoded.push([claim.name, encoder.encode(claim, domains)]);
  }
  encoded.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return { virtualHosts: encoded.map(([, bytes]) => bytes), duplicates, takesAll: owners.has('*') };
}

/** The one virtual host of a service that has its listener for itself: whatever the `Host` header says. */
export function singleHost(hosts: OutboundHosts, host: string, context: RouteContext): Uint8Array | undefined {
  const viewer = viewerOf(hosts.dnsDomain);
  const claim = claimOf(hosts, host, context, viewer);
  return claim === undefined ? undefined : new ClaimEncoder(context, viewer).encode(claim, ANY_DOMAIN);
}

/** Whether no two claims have a domain in common as the viewer sees them. May say no where it is so after all. */
export function isDisjoint({ book, disjoint, otherDomains }: ClaimSet, viewer: Viewer): boolean {
  if (!disjoint) return false;
  const { domains } = ownHosts(book, viewer);
  if (new Set(domains).size < domains.length) return false;
  return !domains.some((domain) => book.domains.has(domain) || otherDomains.has(domain));
}

/**
 * Services come before hosts that are none, the orchestrator's before others, then the oldest: a domain of a Service, such as its
 * short name or its address, is no other's because that one's name is spelled like it. Otherwise the order of the claims stays.
 */
function byPrecedence(a: Claim, b: Claim): number {
  const services = [a.booked?.entry.service, b.booked?.entry.service] as const;
  const ranks = services.map((service) => (service === undefined ? 2 : service.registry === 'Orchestrator' ? 0 : 1));
  return (ranks[0] ?? 0) - (ranks[1] ?? 0) || compareCreated(services[0]?.created, services[1]?.created);
}

/** The domains that no earlier virtual host has; they are the claim's from now on. */
function freeDomains(
  claim: Claim,
  domains: readonly string[],
  owners: Map<string, Claim['owner']>,
  duplicates: string[],
): readonly string[] {
  const clashes = domains.filter((domain) => owners.has(domain));
  const free = clashes.length === 0 ? domains : domains.filter((domain) => !owners.has(domain));
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

const catchAllHosts = new Map<Scope['outboundTrafficPolicy'], Uint8Array>();

/** Where requests to unknown hosts go: on to where they were going, or refused with 502 so that the reason is seen. The same object each time. */
export function catchAllHost(policy: Scope['outboundTrafficPolicy']): Uint8Array {
  const known = catchAllHosts.get(policy) ?? encodedCatchAll(policy);
  catchAllHosts.set(policy, known);
  return known;
}

function encodedCatchAll(policy: Scope['outboundTrafficPolicy']): Uint8Array {
  const allowed = policy === 'ALLOW_ANY';
  const route: Route = allowed
    ? { name: 'allow_any', match: ANY_REQUEST, route: { cluster: PASSTHROUGH_CLUSTER, ...timeoutFields(0) } }
    : { name: 'block_all', match: ANY_REQUEST, directResponse: { status: 502 } };
  return encodeVirtualHost(virtualHost(allowed ? 'allow_any' : 'block_all', ['*'], [route]));
}
