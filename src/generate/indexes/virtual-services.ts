/**
 * Virtual services by the hosts that they are for. Indexed once per list, which the next scope shares when none of them changed, so that
 * asking for each of ten thousand services does not mean going through all virtual services each time.
 */
import { hostMatches, isWildcardHost } from '../../model/hosts.ts';
import type { ResolvedVirtualService } from '../../model/types.ts';

type Placed = readonly [place: number, virtualService: ResolvedVirtualService];

interface HostIndex {
  readonly exact: ReadonlyMap<string, readonly Placed[]>;
  /** Those with a wildcard among their hosts. */
  readonly wildcards: readonly Placed[];
}

const indexes = new WeakMap<readonly ResolvedVirtualService[], HostIndex>();

/** Those of a list that are for `host`, each once, in the order of the list. */
export function virtualServicesFor(
  list: readonly ResolvedVirtualService[],
  host: string,
): readonly ResolvedVirtualService[] {
  const { exact, wildcards } = indexOf(list);
  const named = exact.get(host) ?? [];
  const matching = wildcards.filter(([, { hosts }]) => hosts.some((pattern) => hostMatches(pattern, host)));
  if (matching.length === 0) return named.map(([, virtualService]) => virtualService);
  return [...new Map([...named, ...matching].sort(([a], [b]) => a - b)).values()];
}

function indexOf(list: readonly ResolvedVirtualService[]): HostIndex {
  const known = indexes.get(list);
  if (known !== undefined) return known;
  const exact = new Map<string, Placed[]>();
  const wildcards: Placed[] = [];
  for (const placed of list.entries()) {
    const [, { hosts }] = placed;
    if (hosts.some(isWildcardHost)) wildcards.push(placed);
    for (const host of new Set(hosts)) {
      if (isWildcardHost(host)) continue;
      const named = exact.get(host);
      if (named === undefined) exact.set(host, [placed]);
      else named.push(placed);
    }
  }
  const index = { exact, wildcards };
  indexes.set(list, index);
  return index;
}
