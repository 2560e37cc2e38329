/**
 * Which virtual host of a route configuration owns a domain, for sidecars and gateways alike: the first that claims it.
 * Envoy refuses a configuration in which two have the same one (`VirtualHost.domains` of
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto).
 */
import type { Memos } from '../../core/memo.ts';
import { compareCreated } from '../../model/order.ts';
import { type DomainIndex, type IndexedHost, ownHosts } from './domain-index.ts';
import { serviceDomains, type Viewer } from './service-domains.ts';

/** A domain that a claim does not get. */
export interface LostDomain<Claim> {
  readonly domain: string;
  readonly claim: Claim;
  readonly owner: Claim;
}

export interface Ownership<Claim> {
  /** The claims that own a domain, each with all that it owns, in the order of the claims. */
  readonly owned: readonly (readonly [claim: Claim, domains: readonly string[]])[];
  /** For each claim that lost domains the first of these. */
  readonly lost: readonly LostDomain<Claim>[];
  /** Whether some claim owns every domain that no other has. */
  readonly takesAll: boolean;
}

/**
 * Gives each domain to the first claim that has it. Where a claim keeps all of its domains, they are the very list that
 * `domainsOf` returned.
 *
 * @param claims in the order of precedence
 */
export function settleDomains<Claim>(
  claims: readonly Claim[],
  domainsOf: (claim: Claim) => readonly string[],
): Ownership<Claim> {
  const owners = new Map<string, Claim>();
  const owned: (readonly [Claim, readonly string[]])[] = [];
  const lost: LostDomain<Claim>[] = [];
  for (const claim of claims) {
    const domains = domainsOf(claim);
    const taken = domains.find((domain) => owners.has(domain));
    const owner = taken === undefined ? undefined : owners.get(taken);
    if (taken !== undefined && owner !== undefined) lost.push({ domain: taken, claim, owner });
    const free = taken === undefined ? domains : domains.filter((domain) => !owners.has(domain));
    for (const domain of free) owners.set(domain, claim);
    if (free.length > 0) owned.push([claim, free]);
  }
  return { owned, lost, takesAll: owners.has('*') };
}

/** What is read of a sidecar's virtual host to decide about its domains. */
export interface SidecarClaim {
  readonly host: string;
  /** The service that it is for; undefined for a host that is none. */
  readonly booked: IndexedHost | undefined;
  /** As those see it who have no services of their own. */
  readonly domains: readonly string[];
}

/** What is known of the domains of a sidecar's route configuration: the same for all views that see it. */
export interface ClaimedDomains {
  readonly book: DomainIndex;
  /** Whether no two claims have a domain in common, leaving aside the short names of a namespace's own services. */
  readonly disjoint: boolean;
  /** The domains of hosts that are no services. */
  readonly otherDomains: ReadonlySet<string>;
}

export function claimedDomains(book: DomainIndex, claims: readonly SidecarClaim[]): ClaimedDomains {
  const claimed = new Set<string>();
  const otherDomains = new Set<string>();
  let { disjoint } = book;
  for (const { host, booked, domains } of claims) {
    if (booked !== undefined) {
      disjoint &&= !claimed.has(host);
      claimed.add(host);
      continue;
    }
    for (const domain of domains) {
      disjoint &&= !book.domains.has(domain) && !otherDomains.has(domain);
      otherDomains.add(domain);
    }
  }
  return { book, disjoint, otherDomains };
}

/** Whether every claim owns all of its domains as the viewer sees them. May say no where it is so after all. */
export function isDisjoint(memos: Memos, { book, disjoint, otherDomains }: ClaimedDomains, viewer: Viewer): boolean {
  if (!disjoint) return false;
  const { domains } = ownHosts(memos, book, viewer);
  if (new Set(domains).size < domains.length) return false;
  return !domains.some((domain) => book.domains.has(domain) || otherDomains.has(domain));
}

/** Whether some claim has every domain that no other has. */
export function takesAll({ book, otherDomains }: ClaimedDomains): boolean {
  return book.domains.has('*') || otherDomains.has('*');
}

/** The domains of a claim as the viewer sees it, of whose services these are: see {@link ownHosts}. */
export function domainsOfClaim(
  memos: Memos,
  { booked, domains }: SidecarClaim,
  own: ReadonlySet<IndexedHost>,
  viewer: Viewer,
): readonly string[] {
  if (booked === undefined || !own.has(booked)) return domains;
  return serviceDomains(memos, booked.entry.service, booked.port, viewer);
}

/** The claims of a sidecar's route configuration with the domains that are left for each, as the viewer sees them. */
export function settleClaims<Claim extends SidecarClaim>(
  memos: Memos,
  claims: readonly Claim[],
  { book }: ClaimedDomains,
  viewer: Viewer,
): Ownership<Claim> {
  const { hosts: own } = ownHosts(memos, book, viewer);
  return settleDomains(claims.toSorted(byPrecedence), (claim) => domainsOfClaim(memos, claim, own, viewer));
}

/**
 * Services come before hosts that are none, the orchestrator's before others, then the oldest: a domain of a Service,
 * such as its short name or its address, is no other's because that one's name is spelled like it. Otherwise the order
 * of the claims stays.
 */
function byPrecedence(a: SidecarClaim, b: SidecarClaim): number {
  const services = [a.booked?.entry.service, b.booked?.entry.service] as const;
  const ranks = services.map((service) => (service === undefined ? 2 : service.registry === 'Orchestrator' ? 0 : 1));
  return (ranks[0] ?? 0) - (ranks[1] ?? 0) || compareCreated(services[0]?.created, services[1]?.created);
}
