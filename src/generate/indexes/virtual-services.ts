/**
 * Virtual services by host: those that are for it, and those that lead to it. Indexed once per list, which the next scope shares when
 * none of them changed, so that asking for each of ten thousand services does not mean going through all virtual services each time.
 */
import { destinationHosts, hostMatches, isWildcardHost } from '../../model/index.ts';
import type { ResolvedVirtualService } from '../../model/types.ts';

type List = readonly ResolvedVirtualService[];

type Placed = readonly [place: number, virtualService: ResolvedVirtualService];

class HostIndex {
  readonly #list: List;
  readonly #exact = new Map<string, Placed[]>();
  /** Those with a wildcard among their hosts. */
  readonly #wildcards: Placed[] = [];
  #byTarget: ReadonlyMap<string, List> | undefined;
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
    const named = this.#exact.get(host) ?? [];
    const matching = this.#wildcards.filter(([, { hosts }]) => hosts.some((pattern) => hostMatches(pattern, host)));
    if (matching.length === 0) return named.map(([, virtualService]) => virtualService);
    return [...new Map([...named, ...matching].sort(([a], [b]) => a - b)).values()];
  }

  /** Those whose routes lead to a host. */
  leadingTo(host: string): List {
    return this.#targets.get(host) ?? [];
  }

  get targetHosts(): ReadonlySet<string> {
    this.#targetHosts ??= new Set(this.#targets.keys());
    return this.#targetHosts;
  }

  /** By destination; made when it is first asked for. */
  get #targets(): ReadonlyMap<string, List> {
    if (this.#byTarget === undefined) {
      const targets = new Map<string, ResolvedVirtualService[]>();
      for (const virtualService of this.#list) {
        for (const host of destinationHosts(virtualService)) add(targets, host, virtualService);
      }
      this.#byTarget = targets;
    }
    return this.#byTarget;
  }
}

function add<T>(lists: Map<string, T[]>, key: string, item: T): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}

const indexes = new WeakMap<List, HostIndex>();

function indexOf(list: List): HostIndex {
  const index = indexes.get(list) ?? new HostIndex(list);
  indexes.set(list, index);
  return index;
}

/** Those of a list that are for `host`, each once, in the order of the list. */
export function virtualServicesFor(list: List, host: string): List {
  return indexOf(list).for(host);
}

/** Those of a list that are for `host` or lead to it (its ports and hash settings stand in the route); one may come twice. */
export function virtualServicesAbout(list: List, host: string): List {
  const index = indexOf(list);
  return [...index.for(host), ...index.leadingTo(host)];
}

/** The hosts that a list of virtual services leads to; the same object for the same list. */
export function targetHosts(list: List): ReadonlySet<string> {
  return indexOf(list).targetHosts;
}
