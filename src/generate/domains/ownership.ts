/**
 * Which virtual host of a route configuration owns a domain, for sidecars and gateways: the first candidate that has
 * it. Envoy refuses a configuration in which two virtual hosts have the same domain (`VirtualHost.domains` of
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto).
 */
import type { Memos } from '../../core/memo.ts';
import { compareCreated } from '../../model/index.ts';
import { type DomainIndex, type IndexedHost, ownHosts } from './domain-index.ts';
import { serviceDomains, type Viewer } from './service-domains.ts';

export interface LostDomain<Candidate> {
  readonly domain: string;
  readonly candidate: Candidate;
  readonly owner: Candidate;
}

export interface Ownership<Candidate> {
  /** The candidates that own domains, each with all of its domains, in the order of the candidates. */
  readonly owned: readonly (readonly [candidate: Candidate, domains: readonly string[]])[];
  /** The first lost domain of each candidate that lost any. */
  readonly lost: readonly LostDomain<Candidate>[];
  /** Whether a candidate owns the domain `*`, which matches every domain that no other candidate has. */
  readonly takesAll: boolean;
}

/**
 * Gives each domain to the first candidate that has it. Where a candidate keeps all of its domains, they are the same
 * list object that `domainsOf` returned.
 * @param candidates in the order of precedence
 */
export function settleDomains<Candidate>(
  candidates: readonly Candidate[],
  domainsOf: (candidate: Candidate) => readonly string[],
): Ownership<Candidate> {
  const owners = new Map<string, Candidate>();
  const owned: (readonly [Candidate, readonly string[]])[] = [];
  const lost: LostDomain<Candidate>[] = [];
  for (const candidate of candidates) {
    const domains = domainsOf(candidate);
    const taken = domains.find((domain) => owners.has(domain));
    const owner = taken === undefined ? undefined : owners.get(taken);
    if (taken !== undefined && owner !== undefined) lost.push({ domain: taken, candidate, owner });
    const free = taken === undefined ? domains : domains.filter((domain) => !owners.has(domain));
    for (const domain of free) owners.set(domain, candidate);
    if (free.length > 0) owned.push([candidate, free]);
  }
  return { owned, lost, takesAll: owners.has('*') };
}

/** The properties of a sidecar's virtual host that decide which domains it owns. */
export interface SidecarCandidate {
  readonly host: string;
  /** Its service; undefined for a host that is not a service. */
  readonly indexed: IndexedHost | undefined;
  /** The domains that apply to viewers in namespaces without services. */
  readonly domains: readonly string[];
}

/** The domains of a sidecar's route configuration: equal for all views that have the configuration. */
export interface CandidateDomains {
  readonly index: DomainIndex;
  /** Whether no two candidates have a domain in common, except for the short names of a namespace's own services. */
  readonly disjoint: boolean;
  /** The domains of hosts that are not services. */
  readonly otherDomains: ReadonlySet<string>;
}

/** Computed when it is needed: not for a few hosts. */
class Domains implements CandidateDomains {
  readonly index: DomainIndex;
  readonly #candidates: readonly SidecarCandidate[];
  #all: Pick<CandidateDomains, 'disjoint' | 'otherDomains'> | undefined;

  constructor(index: DomainIndex, candidates: readonly SidecarCandidate[]) {
    this.index = index;
    this.#candidates = candidates;
  }

  get disjoint(): boolean {
    this.#all ??= makeDomains(this.index, this.#candidates);
    return this.#all.disjoint;
  }

  get otherDomains(): ReadonlySet<string> {
    this.#all ??= makeDomains(this.index, this.#candidates);
    return this.#all.otherDomains;
  }
}

export function candidateDomains(index: DomainIndex, candidates: readonly SidecarCandidate[]): CandidateDomains {
  return new Domains(index, candidates);
}

function makeDomains(
  index: DomainIndex,
  candidates: readonly SidecarCandidate[],
): Pick<CandidateDomains, 'disjoint' | 'otherDomains'> {
  const services = new Set<string>();
  const otherDomains = new Set<string>();
  let { disjoint } = index;
  for (const { host, indexed, domains } of candidates) {
    if (indexed !== undefined) {
      disjoint &&= !services.has(host);
      services.add(host);
      continue;
    }
    for (const domain of domains) {
      disjoint &&= !index.domains.has(domain) && !otherDomains.has(domain);
      otherDomains.add(domain);
    }
  }
  return { disjoint, otherDomains };
}

/** Whether every candidate is known to own all of its domains for the viewer. May return false even if they do. */
export function isDisjoint(memos: Memos, { index, disjoint, otherDomains }: CandidateDomains, viewer: Viewer): boolean {
  if (!disjoint) return false;
  const { domains } = ownHosts(memos, index, viewer);
  if (new Set(domains).size < domains.length) return false;
  return !domains.some((domain) => index.domains.has(domain) || otherDomains.has(domain));
}

/** Whether a candidate has the domain `*`, which matches every domain that no other candidate has. */
export function takesAll({ index, otherDomains }: CandidateDomains): boolean {
  return index.domains.has('*') || otherDomains.has('*');
}

/**
 * The domains of a candidate as the viewer sees it.
 * @param own the viewer's own services: see {@link ownHosts}
 */
export function domainsOfCandidate(
  memos: Memos,
  { indexed, domains }: SidecarCandidate,
  own: ReadonlySet<IndexedHost>,
  viewer: Viewer,
): readonly string[] {
  if (indexed === undefined || !own.has(indexed)) return domains;
  return serviceDomains(memos, indexed.entry.service, indexed.port, viewer);
}

/** The candidates of a sidecar's route configuration with their remaining domains, as the viewer sees them. */
export function settleCandidates<Candidate extends SidecarCandidate>(
  memos: Memos,
  candidates: readonly Candidate[],
  { index }: CandidateDomains,
  viewer: Viewer,
): Ownership<Candidate> {
  const { hosts: own } = ownHosts(memos, index, viewer);
  return settleDomains(candidates.toSorted(byPrecedence), (candidate) =>
    domainsOfCandidate(memos, candidate, own, viewer),
  );
}

/**
 * Services come before other hosts, the orchestrator's before others, then the oldest: a domain of a Service, such as
 * its short name or its address, does not belong to another host that has the same spelling. Otherwise the order of the
 * candidates stays.
 */
export function byPrecedence(a: SidecarCandidate, b: SidecarCandidate): number {
  const services = [a.indexed?.entry.service, b.indexed?.entry.service] as const;
  const ranks = services.map((service) => (service === undefined ? 2 : service.registry === 'Orchestrator' ? 0 : 1));
  return (ranks[0] ?? 0) - (ranks[1] ?? 0) || compareCreated(services[0]?.created, services[1]?.created);
}
