/**
 * The clusters of subsets that have no endpoints, for the rules of all namespaces. They are counted when metrics are
 * sampled; the names for a rule and a service are kept until either or the endpoints change. Rules for a wildcard host
 * are not counted: one document would add a name for each of its subsets and each service of the mesh.
 */
import type { PMap } from '../../core/pmap.ts';
import { isWildcardHost } from '../common/hosts.ts';
import { emptyPorts } from '../endpoints/empty-ports.ts';
import type { Endpoint, MergedDestinationRule, Service } from '../types/types.ts';
import type { MeshState } from './mesh-state.ts';

/** The empty clusters of a service's subsets as they were counted last. */
interface Counted {
  readonly endpoints: readonly Endpoint[];
  readonly clusters: readonly string[];
}

const NO_ENDPOINTS: readonly Endpoint[] = [];

export function countEmptySubsets(mesh: MeshState, endpoints: PMap<readonly Endpoint[]>): number {
  const memo = mesh.memos.pairs<Service, MergedDestinationRule, { last: Counted | undefined }>('empty subsets');
  // If rules of several namespaces define the same subset, it is one cluster.
  const found = new Set<string>();
  for (const groups of mesh.rules.values()) {
    for (const { host, all } of groups.values()) {
      if (all.subsets.length === 0 || isWildcardHost(host)) continue;
      for (const service of mesh.servicesByHost.get(host) ?? []) {
        if (service.resolution !== 'eds') continue;
        const kept = memo.get(service, all, () => ({ last: undefined }));
        const current = endpoints.get(service.key) ?? NO_ENDPOINTS;
        if (kept.last?.endpoints !== current) {
          kept.last = { endpoints: current, clusters: emptyClusters(service, all, current) };
        }
        for (const cluster of kept.last.clusters) found.add(cluster);
      }
    }
  }
  return found.size;
}

function emptyClusters(
  service: Service,
  { subsets }: MergedDestinationRule,
  endpoints: readonly Endpoint[],
): readonly string[] {
  return subsets.flatMap(({ name, labels }) =>
    emptyPorts(service, endpoints, labels).map(({ port }) => `${port}|${name}|${service.key}`),
  );
}
