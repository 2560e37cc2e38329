/**
 * The virtual hosts of one sidecar route configuration: those that are claimed (see `claims.ts`), then where everything else goes. A
 * domain belongs to the first that claims it.
 */

import type { Scope } from '../../model/types.ts';
import { PASSTHROUGH_CLUSTER } from '../names.ts';
import { timeoutFields } from './action.ts';
import { type Claim, type ClaimSet, type ClaimSources, claimOf, claimSet } from './claims.ts';
import { contextKey, type LookupSources, type RouteContext } from './context.ts';
import { type DomainBook, ownHosts } from './domain-book.ts';
import { serviceDomains, type Viewer, viewerOf } from './domains.ts';
import { ANY_REQUEST } from './match.ts';
import type { Route, VirtualHostMessage } from './messages.ts';
import { encodeVirtualHost } from './route-configuration.ts';
import { withSharedRetries } from './shared-retries.ts';
import { encodedVirtualHost } from './virtual-host-cache.ts';

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

/** The virtual hosts that all services of a port share. */
export function sharedHosts(hosts: OutboundHosts, context: RouteContext): EncodedHosts {
  const viewer = viewerOf(hosts.dnsDomain);
  const set = claimSet(hosts, context, viewer);
  const key = contextKey(context);
  const { hosts: own } = ownHosts(set.book, viewer);
  const domainsOf = ({ booked, domains }: Claim) =>
    booked === undefined || !own.has(booked) ? domains : serviceDomains(booked.entry.service, booked.port, viewer);
  if (isDisjoint(set, viewer)) {
    const encode = (claim: Claim) => encodeClaim(domainsOf(claim), claim, context, key);
    const virtualHosts = encodeChanged(set, context.lookups.sources, `${viewer.own} ${key}`, encode);
    return { virtualHosts, duplicates: [], takesAll: set.book.domains.has('*') || set.otherDomains.has('*') };
  }
  const duplicates: string[] = [];
  const owners = new Map<string, Claim['owner']>();
  const encoded: [name: string, bytes: Uint8Array][] = [];
  for (const claim of set.claims) {
    const domains = freeDomains(claim, domainsOf(claim), owners, duplicates);
    if (domains.length === 0) continue;
    encoded.push([claim.name, encodeClaim(domains, claim, context, key)]);
  }
  encoded.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return { virtualHosts: encoded.map(([, bytes]) => bytes), duplicates, takesAll: owners.has('*') };
}

/** The one virtual host of a service that has its listener for itself: whatever the `Host` header says. */
export function singleHost(hosts: OutboundHosts, host: string, context: RouteContext): Uint8Array | undefined {
  const claim = claimOf(hosts, host, context, viewerOf(hosts.dnsDomain));
  return claim === undefined ? undefined : encodeClaim(['*'], claim, context, contextKey(context));
}

/** Whether no two claims have a domain in common as the viewer sees them. May say no where it is so after all. */
export function isDisjoint({ book, disjoint, otherDomains }: ClaimSet, viewer: Viewer): boolean {
  if (!disjoint) return false;
  const { domains } = ownHosts(book, viewer);
  if (new Set(domains).size < domains.length) return false;
  return !domains.some((domain) => book.domains.has(domain) || otherDomains.has(domain));
}

/** What was made of the claims of a book last time. */
interface Last {
  readonly objects: LookupSources['objects'];
  readonly claims: readonly Claim[];
  readonly encoded: readonly Uint8Array[];
}

/** Namespaces and kinds of proxies that share a book; with more, all begin anew. */
const MAX_LAST = 512;

const lastOfBooks = new WeakMap<DomainBook, Map<string, Last>>();

/**
 * Encodes claims that have no domain in common. Where nothing differs from last time but the claims, as after a change of one
 * virtual service, those that stand at their place again are not looked at.
 *
 * @param key names what the encoded claims are made of besides the claims and the lookups
 */
function encodeChanged(
  { book, ordered }: ClaimSet,
  sources: LookupSources | undefined,
  key: string,
  encode: (claim: Claim) => Uint8Array,
): readonly Uint8Array[] {
  if (sources === undefined) return ordered.map(encode);
  const { objects, text } = sources;
  const known = lastOfBooks.get(book) ?? new Map<string, Last>();
  lastOfBooks.set(book, known);
  const id = `${text} ${key}`;
  const found = known.get(id);
  const last = found?.objects.every((object, i) => object === objects[i]) === true ? found : undefined;
  const encoded = ordered.map((claim, place) => {
    const same = last?.claims[place] === claim ? last.encoded[place] : undefined;
    return same ?? encode(claim);
  });
  if (known.size >= MAX_LAST && found === undefined) known.clear();
  known.set(id, { objects, claims: ordered, encoded });
  return encoded;
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

/** @param contextText {@link contextKey} of the context */
function encodeClaim(
  domains: readonly string[],
  { name, made, port, routes, kept }: Claim,
  context: RouteContext,
  contextText: string,
): Uint8Array {
  // The port stands in the name.
  return encodedVirtualHost(
    { made, name, domains, key: contextText },
    context.lookups,
    (lookups) => virtualHost(name, domains, routes({ ...context, port, lookups })),
    kept,
  );
}

function virtualHost(name: string, domains: readonly string[], routes: readonly Route[]): VirtualHostMessage {
  return { name, domains, ...withSharedRetries(routes), includeRequestAttemptCount: true };
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
