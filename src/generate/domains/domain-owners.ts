/**
 * The owners of single domains of a sidecar's route configuration. To settle all domains of ten thousand services takes
 * longer than to generate the few virtual hosts that proxies on demand ask for. Finds the same owners as
 * `settleCandidates`.
 */
import type { Memos } from '../../core/memo.ts';
import { addTo, type DomainIndex, type IndexedHost, type OwnHosts, ownHosts } from './domain-index.ts';
import { byPrecedence, domainsOfCandidate, type LostDomain, type SidecarCandidate } from './ownership.ts';
import type { Viewer } from './service-domains.ts';

const NONE: readonly never[] = [];

/** Most viewers for which it is kept which candidates have common domains. The oldest is evicted first. */
const MAX_VIEWED = 64;
/** Most requested hosts for which the choice of a viewer is kept. */
const MAX_CHOSEN = 1024;

/** In a domain: any characters, at least one. */
const ANY = '*';

/** A candidate for a virtual host. */
interface OwningCandidate extends SidecarCandidate {
  /** Of the virtual host: `host:port`. */
  readonly name: string;
}

/** The candidates by their domains, for all viewers. */
export class DomainOwners<Candidate extends OwningCandidate> {
  readonly index: DomainIndex;
  readonly #places = new Map<Candidate, number>();
  readonly #ofService = new Map<IndexedHost, Candidate | readonly Candidate[]>();
  /** Of hosts that are not services. */
  readonly #others = new Map<string, Candidate[]>();
  readonly #othersByName = new Map<string, Candidate[]>();
  /** Candidates that may have a domain in common with another one, for any viewer. */
  readonly #sharing = new Set<Candidate>();
  /** By the suffix of the viewer's own services. */
  readonly #viewed = new Map<string, ViewedOwners<Candidate>>();

  /** @param candidates in the order that decides between candidates of equal precedence */
  constructor(index: DomainIndex, candidates: readonly Candidate[]) {
    this.index = index;
    for (const candidate of candidates) {
      this.#places.set(candidate, this.#places.size);
      if (candidate.indexed === undefined) this.#addOther(candidate);
      else this.#addService(candidate, candidate.indexed);
    }
    for (const host of index.sharing) for (const candidate of this.#of(host)) this.#sharing.add(candidate);
    for (const domain of this.#others.keys()) this.#noteShared(this.#withDomain(domain));
  }

  #addService(candidate: Candidate, host: IndexedHost): void {
    const known = this.#ofService.get(host);
    this.#ofService.set(host, known === undefined ? candidate : [...listed(known), candidate]);
    if (known !== undefined) this.#noteShared(this.#of(host));
  }

  #addOther(candidate: Candidate): void {
    const { name } = candidate;
    addTo(this.#othersByName, name, candidate);
    for (const domain of candidate.domains) addTo(this.#others, domain, candidate);
  }

  #noteShared(candidates: readonly Candidate[]): void {
    if (candidates.length > 1) for (const each of candidates) this.#sharing.add(each);
  }

  get size(): number {
    return this.#places.size;
  }

  /** Those whose virtual host has this name: `host:port`. */
  named(name: string): readonly Candidate[] {
    const host = this.index.hosts.get(name.slice(0, name.lastIndexOf(':')));
    const services = host?.name === name ? this.#of(host) : NONE;
    return [...services, ...(this.#othersByName.get(name) ?? NONE)];
  }

  #of(host: IndexedHost): readonly Candidate[] {
    const found = this.#ofService.get(host);
    return found === undefined ? NONE : listed(found);
  }

  /** Without the domains that only apply in the services' own namespaces. */
  #withDomain(domain: string): readonly Candidate[] {
    const services = this.index.withDomain(domain).flatMap((host) => this.#of(host));
    const others = this.#others.get(domain);
    return others === undefined ? services : [...services, ...others];
  }

  /** One object for all viewers without own services. */
  for(memos: Memos, viewer: Viewer): ViewedOwners<Candidate> {
    const own = ownHosts(memos, this.index, viewer);
    const key = own.hosts.size === 0 ? '' : viewer.own;
    const known = this.#viewed.get(key) ?? this.#viewedBy(memos, viewer, own);
    this.#viewed.set(key, known);
    const [oldest] = this.#viewed.keys();
    if (oldest !== undefined && this.#viewed.size > MAX_VIEWED) this.#viewed.delete(oldest);
    return known;
  }

  #viewedBy(memos: Memos, viewer: Viewer, own: OwnHosts): ViewedOwners<Candidate> {
    const domainsOf = (candidate: Candidate): readonly string[] =>
      domainsOfCandidate(memos, candidate, own.hosts, viewer);
    const withDomain = (domain: string): readonly Candidate[] => {
      const more = own.byDomain.get(domain);
      const found = this.#withDomain(domain);
      return more === undefined ? found : [...found, ...more.flatMap((host) => this.#of(host))];
    };
    const compare = (a: Candidate, b: Candidate): number =>
      byPrecedence(a, b) || (this.#places.get(a) ?? 0) - (this.#places.get(b) ?? 0);
    const sharing = new Set(this.#sharing);
    for (const domain of own.domains) {
      const all = withDomain(domain);
      if (all.length > 1) for (const each of all) sharing.add(each);
    }
    const wildcards = [...this.#others.keys(), ...own.domains].filter((domain) => domain.startsWith(ANY));
    const lengths = this.index.wildcardLengths.union(new Set(wildcards.map(({ length }) => length)));
    const wildcardLengths = [...lengths].filter((length) => length > ANY.length).sort((a, b) => b - a);
    return new ViewedOwners({ domainsOf, withDomain, compare, sharing, wildcardLengths });
  }
}

interface Found<Candidate> {
  readonly domainsOf: (candidate: Candidate) => readonly string[];
  readonly withDomain: (domain: string) => readonly Candidate[];
  readonly compare: (a: Candidate, b: Candidate) => number;
  readonly sharing: ReadonlySet<Candidate>;
  /** The lengths of domains that begin with `*`, but for that one, the longest first. */
  readonly wildcardLengths: readonly number[];
}

/** The same as one viewer sees them. */
export class ViewedOwners<Candidate extends OwningCandidate> {
  readonly #found: Found<Candidate>;
  readonly #chosen = new Map<string, Candidate | undefined>();
  /** Of domains that several candidates have. */
  readonly #owners = new Map<string, Candidate>();
  #lost: readonly LostDomain<Candidate>[] | undefined;

  constructor(found: Found<Candidate>) {
    this.#found = found;
  }

  ownerOf(domain: string): Candidate | undefined {
    const known = this.#owners.get(domain);
    if (known !== undefined) return known;
    const { withDomain, compare } = this.#found;
    const all = withDomain(domain);
    const owner = all.reduce<Candidate | undefined>(
      (first, each) => (first === undefined || compare(each, first) < 0 ? each : first),
      undefined,
    );
    // Each of many candidates asks for it.
    if (owner !== undefined && all.length > 1) this.#owners.set(domain, owner);
    return owner;
  }

  /**
   * The candidate of the virtual host that Envoy chooses for a requested host: exact domains first, then the longest
   * suffix, which may begin within a label; not that of all hosts.
   */
  chosenFor(host: string): Candidate | undefined {
    const known = this.#chosen.get(host);
    if (known !== undefined || this.#chosen.has(host)) return known;
    const chosen = this.ownerOf(host) ?? this.#ownerOfSuffix(host);
    if (this.#chosen.size >= MAX_CHOSEN) this.#chosen.clear();
    this.#chosen.set(host, chosen);
    return chosen;
  }

  #ownerOfSuffix(host: string): Candidate | undefined {
    for (const length of this.#found.wildcardLengths) {
      if (length > host.length) continue;
      const found = this.ownerOf(`${ANY}${host.slice(1 - length)}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** The domains that a candidate owns: the same list object if it keeps all of its domains. */
  domainsOwnedBy(candidate: Candidate): readonly string[] {
    const domains = this.#found.domainsOf(candidate);
    if (!this.#found.sharing.has(candidate)) return domains;
    const owned = domains.filter((domain) => this.ownerOf(domain) === candidate);
    return owned.length === domains.length ? domains : owned;
  }

  /** The first lost domain of each candidate that lost any, in their order of precedence. */
  lost(): readonly LostDomain<Candidate>[] {
    this.#lost ??= this.#findLost();
    return this.#lost;
  }

  #findLost(): readonly LostDomain<Candidate>[] {
    const { compare, domainsOf, sharing } = this.#found;
    return [...sharing].sort(compare).flatMap((candidate) => {
      for (const domain of domainsOf(candidate)) {
        const owner = this.ownerOf(domain);
        if (owner !== undefined && owner !== candidate) return [{ domain, candidate, owner }];
      }
      return [];
    });
  }
}

function listed<Candidate extends object>(found: Candidate | readonly Candidate[]): readonly Candidate[] {
  return Array.isArray(found) ? found : [found as Candidate];
}
