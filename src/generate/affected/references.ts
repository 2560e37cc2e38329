/**
 * Which virtual services speak of a host: by their own hosts or as a destination (the destination's ports and hash settings stand
 * in the route). Indexed once per list of virtual services, which the next scope shares when none of them changed.
 */
import { hostMatches, isWildcardHost } from '../../model/index.ts';
import type { ResolvedVirtualService } from '../../model/types.ts';
import { destinationsOf } from '../indexes/index.ts';

interface References {
  readonly byHost: ReadonlyMap<string, readonly ResolvedVirtualService[]>;
  /** Those with a wildcard host. */
  readonly wildcards: readonly ResolvedVirtualService[];
}

const indexes = new WeakMap<readonly ResolvedVirtualService[], References>();

/** Virtual services of the list that speak of `host`; one may come twice. */
export function* virtualServicesAbout(
  list: readonly ResolvedVirtualService[],
  host: string,
): Generator<ResolvedVirtualService> {
  const { byHost, wildcards } = referencesOf(list);
  yield* byHost.get(host) ?? [];
  for (const virtualService of wildcards) {
    if (virtualService.hosts.some((pattern) => isWildcardHost(pattern) && hostMatches(pattern, host))) {
      yield virtualService;
    }
  }
}

function referencesOf(list: readonly ResolvedVirtualService[]): References {
  const known = indexes.get(list);
  if (known !== undefined) return known;
  const byHost = new Map<string, ResolvedVirtualService[]>();
  const wildcards: ResolvedVirtualService[] = [];
  for (const virtualService of list) {
    if (virtualService.hosts.some(isWildcardHost)) wildcards.push(virtualService);
    for (const host of mentionedHosts(virtualService)) {
      const mentioning = byHost.get(host);
      if (mentioning === undefined) byHost.set(host, [virtualService]);
      else mentioning.push(virtualService);
    }
  }
  const references = { byHost, wildcards };
  indexes.set(list, references);
  return references;
}

function mentionedHosts(virtualService: ResolvedVirtualService): Set<string> {
  const hosts = new Set(virtualService.hosts.filter((host) => !isWildcardHost(host)));
  for (const { host } of destinationsOf(virtualService)) hosts.add(host);
  return hosts;
}
