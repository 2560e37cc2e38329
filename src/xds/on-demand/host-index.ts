/** Which virtual host Envoy would choose for a host: the index of the domains of one bundle. */
import { PMap } from '../../core/pmap.ts';
import type { Bundle, EncodedResource } from '../../push/index.ts';
import { domainsOf } from './aliased-resource.ts';

/** In a domain: any characters. */
export const ANY = '*';

/** The virtual host for a name that a proxy asks for. */
export interface FoundHost {
  readonly host: EncodedResource;
  /** The virtual host also has domains with a wildcard, by one of which it may have been found. */
  readonly hasWildcards: boolean;
}

interface Entry extends FoundHost {
  readonly domains: readonly string[];
}

/** The route configuration and the host of a name `<route configuration>/<host>`. */
export function splitName(name: string): { readonly routes: string; readonly host: string } {
  const slash = name.lastIndexOf('/');
  return { routes: name.slice(0, Math.max(0, slash)), host: name.slice(slash + 1) };
}

export class HostIndex {
  static readonly #nothing = new HostIndex(PMap.empty(), PMap.empty());
  private readonly entries: PMap<Entry>;
  /** By `<route configuration>/<domain>`. */
  private readonly domains: PMap<Entry>;

  private constructor(entries: PMap<Entry>, domains: PMap<Entry>) {
    this.entries = entries;
    this.domains = domains;
  }

  /** @param earlier the index of an older bundle of the same view; with it, only the difference is read */
  static of(bundle: Bundle, earlier?: { readonly bundle: Bundle; readonly index: HostIndex }): HostIndex {
    const { changed, removed } = bundle.diffFrom(earlier?.bundle);
    const { entries, domains } = earlier?.index ?? HostIndex.#nothing;
    const made = changed.map((host): [string, Entry] => [host.name, entryOf(host)]);
    const gone = [...removed, ...changed.map(({ name }) => name)].flatMap((name) => {
      const entry = entries.get(name);
      return entry === undefined ? [] : keysOf(entry).map((key): [string, undefined] => [key, undefined]);
    });
    const added = made.flatMap(([, entry]) => keysOf(entry).map((key): [string, Entry] => [key, entry]));
    return new HostIndex(
      entries.with([...removed.map((name): [string, undefined] => [name, undefined]), ...made]),
      domains.with([...gone, ...added]),
    );
  }

  /** The virtual host of this name, or for the host in it: exact domains first, then the longest suffix, then `*`. */
  find(name: string): FoundHost | undefined {
    const named = this.entries.get(name);
    if (named !== undefined && !named.hasWildcards) return named;
    const { routes, host } = splitName(name);
    const exact = this.domains.get(`${routes}/${host}`);
    if (exact !== undefined) return exact;
    // Also a part of a label: `*-db.example.com`.
    for (let start = 1; start < host.length; start++) {
      const found = this.domains.get(`${routes}/${ANY}${host.slice(start)}`);
      if (found !== undefined) return found;
    }
    return this.domains.get(`${routes}/${ANY}`);
  }
}

function entryOf(host: EncodedResource): Entry {
  const domains = domainsOf(host);
  return { host, domains, hasWildcards: domains.some((domain) => domain.startsWith(ANY)) };
}

function keysOf({ host: { name }, domains }: Entry): readonly string[] {
  const { routes } = splitName(name);
  return domains.map((domain) => `${routes}/${domain}`);
}
