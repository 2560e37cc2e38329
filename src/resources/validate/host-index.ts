/** Which of many hosts cover or overlap another, at a cost that does not grow with their number. */
import { plainHost } from './values.ts';

/** No host is longer (RFC 1035, with the dot at the end); longer strings are refused elsewhere, and are not indexed. */
const MAX_HOST = 254;

/** Hosts and wildcards such as `*.example.com`, by their position in a list. */
export class HostIndex {
  readonly #exact = new Map<string, number>();
  /** Wildcards by the part after the star. */
  readonly #wildcards = new Map<string, number>();
  /** The first host below each domain. */
  readonly #below = new Map<string, number>();

  /**
   * @param hosts of equal hosts, the first is used
   */
  constructor(hosts: readonly string[] = []) {
    hosts.forEach((host, index) => {
      this.add(host, index);
    });
  }

  add(host: string, index: number): void {
    if (host.length > MAX_HOST) return;
    const { name, isWildcard } = parsed(host);
    setFirst(isWildcard ? this.#wildcards : this.#exact, name, index);
    for (const domain of domainsOf(name)) setFirst(this.#below, domain, index);
  }

  /** The position of the first host that is equal to `host`, or a wildcard for all of it. */
  covering(host: string): number | undefined {
    return first(this.#coveringAll(host));
  }

  /** The position of the first host that is also among those of `host`. */
  overlapping(host: string): number | undefined {
    const { name, isWildcard } = parsed(host);
    return first([...this.#coveringAll(host), isWildcard ? this.#below.get(name) : undefined]);
  }

  #coveringAll(host: string): (number | undefined)[] {
    if (host.length > MAX_HOST) return [];
    const { name, isWildcard } = parsed(host);
    const wildcards = domainsOf(name).map((domain) => this.#wildcards.get(domain));
    return isWildcard ? wildcards : [this.#exact.get(name), ...wildcards];
  }
}

function parsed(host: string): { readonly name: string; readonly isWildcard: boolean } {
  const plain = plainHost(host);
  const isWildcard = plain.startsWith('*');
  return { name: isWildcard ? plain.slice(1) : plain, isWildcard };
}

/** The parts after the star of the wildcards that match this name: `.b.c`, `.c` and '' for `a.b.c`. */
function domainsOf(name: string): string[] {
  const domains = [''];
  for (let dot = name.indexOf('.'); dot >= 0; dot = name.indexOf('.', dot + 1)) domains.push(name.slice(dot));
  return domains;
}

function setFirst(map: Map<string, number>, key: string, index: number): void {
  if (!map.has(key)) map.set(key, index);
}

function first(positions: readonly (number | undefined)[]): number | undefined {
  const known = positions.filter((position) => position !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
