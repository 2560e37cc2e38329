/**
 * Virtual services by host, and their target hosts. Indexed once per list, which the next scope shares when none of
 * them changed, so that lookups for ten thousand services do not walk all virtual services each time.
 */
import type { Memos } from '../../core/memo.ts';
import { destinationHosts, hostMatches, isWildcardHost, type ResolvedVirtualService } from '../../model/index.ts';

type List = readonly ResolvedVirtualService[];

type Placed = readonly [place: number, virtualService: ResolvedVirtualService];

class HostIndex {
  readonly #list: List;
  readonly #exact = new Map<string, Placed[]>();
  /** Virtual services with a wildcard among their hosts. */
  readonly #wildcards: Placed[] = [];
  #targetHosts: ReadonlySet<string> | undefined;

  constructor(list: List) {
    this.#list = list;
    for (const placed of list.entries()) {
      const [, { hosts }] = placed;
      if (hosts.some(isWildcardHost)) this.#wildcards.push(placed);
      for (const host of new Set(hosts)) if (!isWildcardHost(host)) add(this.#exact, host, placed);
    }
  }

  for(host: string): List {
    return inOrder(this.#placed(host));
  }

  /** Virtual services for any of these hosts; all of them if one is a wildcard. */
  forAny(hosts: readonly string[]): List {
    return hosts.some(isWildcardHost) ? this.#list : inOrder(hosts.flatMap((host) => this.#placed(host)));
  }

  #placed(host: string): readonly Placed[] {
    const named = this.#exact.get(host) ?? [];
    const matching = this.#wildcards.filter(([, { hosts }]) => hosts.some((pattern) => hostMatches(pattern, host)));
    return matching.length === 0 ? named : [...named, ...matching];
  }

  /** The target hosts of routes, computed on first use. */
  get targetHosts(): ReadonlySet<string> {
    if (this.#targetHosts === undefined) {
      const hosts = new Set<string>();
      for (const virtualService of this.#list) for (const host of destinationHosts(virtualService)) hosts.add(host);
      this.#targetHosts = hosts;
    }
    return this.#targetHosts;
  }
}

/** In the order of the list, without duplicates. */
function inOrder(placed: readonly Placed[]): List {
  if (placed.length < 2) return placed.map(([, virtualService]) => virtualService);
  return [...new Map(placed.toSorted(([a], [b]) => a - b)).values()];
}

function add<T>(lists: Map<string, T[]>, key: string, item: T): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}

function getIndex(memos: Memos, list: List): HostIndex {
  return memos.weak<List, HostIndex>('virtual services by host').get(list, () => new HostIndex(list));
}

/** The virtual services of a list that are for `host`, each once, in the order of the list. */
export function virtualServicesFor(memos: Memos, list: List, host: string): List {
  return getIndex(memos, list).for(host);
}

/** The virtual services of a list that may have a host in common with these, each once, in the order of the list. */
export function virtualServicesForAny(memos: Memos, list: List, hosts: readonly string[]): List {
  return getIndex(memos, list).forAny(hosts);
}

/** The target hosts of a list of virtual services; the same object for the same list. */
export function targetHosts(memos: Memos, list: List): ReadonlySet<string> {
  return getIndex(memos, list).targetHosts;
}
