/**
 * Which virtual host Envoy would choose for a host. Views have nearly the same virtual hosts, so that their domains are
 * kept once for all views; whether a view has a virtual host is looked up in its bundle.
 */
import type { Memos, WeakMemo } from '../../core/memo.ts';
import type { Bundle, EncodedResource } from '../../push/index.ts';
import { domainsOf } from './aliased-resource.ts';

/** In a domain: any characters. */
export const ANY = '*';

const PORT = /:\d+$/;

/** The virtual host for a name that a proxy asks for. */
export interface FoundHost {
  readonly host: EncodedResource;
  /** The virtual host also has domains with a wildcard, by one of which it may have been found. */
  readonly hasWildcards: boolean;
}

/** A virtual host that may have a domain. */
interface Candidate {
  readonly name: string;
  /** How many resources of this name have the domain. */
  uses: number;
  readonly next: Candidate | undefined;
}

/** The keys of the domains of a resource. */
interface Entered {
  readonly name: string;
  readonly keys: readonly string[];
}

/** The route configuration and the host of a name `<route configuration>/<host>`. */
export function splitName(name: string): { readonly routes: string; readonly host: string } {
  const slash = name.lastIndexOf('/');
  return { routes: name.slice(0, Math.max(0, slash)), host: name.slice(slash + 1) };
}

/** Domains that only differ in the port have one key. */
function keyOf(routes: string, domain: string): string {
  return `${routes}/${domain.replace(PORT, '')}`;
}

/** Names of the virtual hosts for all hosts that the mesh does not know. */
const CATCH_ALL: ReadonlySet<string> = new Set(['allow_any', 'block_all']);

/** Whether the mesh knows the host for which this virtual host was found. */
export function isKnown(found: FoundHost | undefined): found is FoundHost {
  return found !== undefined && !CATCH_ALL.has(splitName(found.host.name).host);
}

export class HostTable {
  /** By the key of a domain. */
  readonly #candidates = new Map<string, Candidate>();
  /**
   * Lengths of the domains with wildcards, the longest first: a proxy may ask for a host of thousands of characters,
   * each of which may be the first of a suffix.
   */
  #suffixLengths: readonly number[] = [];
  readonly #entered = new WeakSet<EncodedResource>();
  readonly #freed = new FinalizationRegistry<Entered>((entered) => this.#remove(entered));
  /** Bundles whose virtual hosts are here. */
  readonly #read: WeakMemo<Bundle, true>;
  /** The newest of them of each view. */
  readonly #newest = new Map<string, WeakRef<Bundle>>();
  readonly #collected = new FinalizationRegistry<string>((view) => {
    if (this.#newest.get(view)?.deref() === undefined) this.#newest.delete(view);
  });
  readonly #domains: WeakMemo<EncodedResource, readonly string[]>;

  constructor(memos: Memos) {
    this.#read = memos.weak('bundles with known domains');
    this.#domains = memos.weak('domains of virtual hosts in use');
  }

  /** Reads the domains of a bundle, 50 ms for 10,000 virtual hosts: before the first proxy waits for one. */
  read(bundle: Bundle): void {
    this.#read.get(bundle, () => this.#enter(bundle));
  }

  /** The virtual host of this name, or for the host in it: exact domains first, then the longest suffix, then `*`. */
  find(bundle: Bundle, name: string): FoundHost | undefined {
    this.read(bundle);
    const named = bundle.get(name);
    if (named !== undefined && !this.hasWildcards(named)) return { host: named, hasWildcards: false };
    const { routes, host } = splitName(name);
    const exact = this.#withDomain(bundle, routes, host);
    if (exact !== undefined) return exact;
    // Also a part of a label: `*-db.example.com`.
    for (const length of this.#suffixLengths) {
      const start = host.length - length;
      const found = start > 0 ? this.#withDomain(bundle, routes, `${ANY}${host.slice(start)}`) : undefined;
      if (found !== undefined) return found;
    }
    return this.#withDomain(bundle, routes, ANY);
  }

  hasWildcards(host: EncodedResource): boolean {
    return this.#domains.get(host, () => domainsOf(host)).some((domain) => domain.startsWith(ANY));
  }

  #withDomain(bundle: Bundle, routes: string, domain: string): FoundHost | undefined {
    let candidate = this.#candidates.get(keyOf(routes, domain));
    for (; candidate !== undefined; candidate = candidate.next) {
      const host = bundle.get(candidate.name);
      if (host === undefined) continue;
      if (this.#domains.get(host, () => domainsOf(host)).includes(domain))
        return { host, hasWildcards: this.hasWildcards(host) };
    }
    return undefined;
  }

  #enter(bundle: Bundle): true {
    const { changed } = bundle.diffFrom(this.#newest.get(bundle.viewKey)?.deref());
    for (const host of changed) {
      if (this.#entered.has(host)) continue;
      this.#entered.add(host);
      const { name } = host;
      const { routes } = splitName(name);
      const domains = domainsOf(host);
      this.#addSuffixes(domains);
      const keys = [...new Set(domains.map((domain) => keyOf(routes, domain)))];
      this.#freed.register(host, { name, keys });
      for (const key of keys) this.#add(key, name);
    }
    this.#newest.set(bundle.viewKey, new WeakRef(bundle));
    this.#collected.register(bundle, bundle.viewKey);
    return true;
  }

  #addSuffixes(domains: readonly string[]): void {
    const suffixes = domains.filter((domain) => domain.startsWith(ANY) && domain !== ANY);
    const added = suffixes
      .map((domain) => domain.length - ANY.length)
      .filter((length) => !this.#suffixLengths.includes(length));
    if (added.length > 0) this.#suffixLengths = [...new Set([...this.#suffixLengths, ...added])].sort((a, b) => b - a);
  }

  #add(key: string, name: string): void {
    const first = this.#candidates.get(key);
    const known = candidates(first).find((each) => each.name === name);
    if (known !== undefined) known.uses++;
    else this.#candidates.set(key, { name, uses: 1, next: first });
  }

  #remove({ name, keys }: Entered): void {
    for (const key of keys) {
      const all = candidates(this.#candidates.get(key));
      const known = all.find((each) => each.name === name);
      if (known === undefined || --known.uses > 0) continue;
      const left = all.filter((each) => each !== known);
      const first = left.reduceRight<Candidate | undefined>(
        (next, { uses, ...each }) => ({ ...each, uses, next }),
        undefined,
      );
      if (first === undefined) this.#candidates.delete(key);
      else this.#candidates.set(key, first);
    }
  }
}

function candidates(first: Candidate | undefined): readonly Candidate[] {
  const all: Candidate[] = [];
  for (let each = first; each !== undefined; each = each.next) all.push(each);
  return all;
}
