/** Patches of clusters. */
import { encode, envoy } from '../../protobuf/index.ts';
import { PATCHED_MESSAGES } from '../../resources/index.ts';
import type { GeneratedResource } from '../types.ts';
import { isElsewhere } from './config-source.ts';
import { mergeValue } from './merge.ts';
import { combination, combinations, type PatchKeys } from './patch-index.ts';
import type { Patches } from './patches.ts';
import { labelsOf, misfit, type Patch } from './types.ts';

const { Cluster } = envoy.config.cluster.v3;
type Cluster = envoy.config.cluster.v3.Cluster.Input;

/** The clusters after the patches. Unchanged clusters are the same objects. */
export function patchClusters(clusters: readonly GeneratedResource[], patches: Patches): readonly GeneratedResource[] {
  const index = patches.indexOf('CLUSTER', CLUSTER_KEYS);
  return clusters.flatMap((resource): readonly GeneratedResource[] => {
    const matching = index
      .for(resource.name)
      .filter(({ operation, match }) => operation !== 'ADD' && matches(resource.name, match.cluster));
    if (matching.length === 0) return [resource];
    if (matching.some(({ operation }) => operation === 'REMOVE')) return [];
    const base: Cluster = Cluster.decode(resource.bytes);
    return [clusterResource(matching.reduce(merge, base), resource, matching)];
  });
}

export function addedCluster(patch: Patch): GeneratedResource {
  return clusterResource(Cluster.decode(patch.value), { name: patch.name, refs: [] }, [patch]);
}

/** Keys: the name in the patch's match, or port, subset and host. */
const CLUSTER_KEYS: PatchKeys<string> = {
  keyOf: ({ match: { cluster = {} } }) =>
    cluster.name ? `name ${cluster.name}` : combination(cluster.portNumber, cluster.subset, cluster.service),
  keysOf: (name) => {
    const { port = '', subset = '', host = '' } = NAME.exec(name)?.groups ?? {};
    return [`name ${name}`, ...combinations(port, subset, host)];
  },
};

const NAME = /^(?:outbound|inbound)\|(?<port>\d+)\|(?<subset>[^|]*)\|(?<host>.*)$/;

function matches(name: string, match: Patch['match']['cluster']): boolean {
  if (match === undefined) return true;
  if (match.name) return match.name === name;
  const { port = '', subset = '', host = '' } = NAME.exec(name)?.groups ?? {};
  if (match.subset && match.subset !== subset) return false;
  if (match.service && match.service !== host) return false;
  return match.portNumber === undefined || String(match.portNumber) === port;
}

function merge(cluster: Cluster, from: Patch): Cluster {
  const { label, value } = from;
  const patch: Cluster = Cluster.decode(value);
  if (patch.name && patch.name !== cluster.name) {
    throw misfit(label, `a patch cannot rename the cluster ${cluster.name}, because other resources refer to it`);
  }
  const sockets = cluster.transportSocketMatches ?? [];
  const socket = patch.transportSocket;
  const index = sockets.findIndex(({ transportSocket }) => transportSocket?.name === socket?.name);
  if (!socket || index < 0) return mergeValue(PATCHED_MESSAGES.CLUSTER, cluster, patch, from);
  // If a cluster uses TLS for only some of its endpoints, its TLS settings are in its transport socket matches.
  const base = sockets[index] ?? {};
  const patched = mergeValue(
    'envoy.config.cluster.v3.Cluster.TransportSocketMatch',
    base,
    { transportSocket: socket },
    from,
  );
  const others: Cluster = { ...patch, transportSocket: undefined };
  const merged = mergeValue(PATCHED_MESSAGES.CLUSTER, cluster, others, from);
  return { ...merged, transportSocketMatches: (merged.transportSocketMatches ?? []).with(index, patched) };
}

function clusterResource(
  cluster: Cluster,
  { name, refs }: Pick<GeneratedResource, 'name' | 'refs'>,
  patches: readonly Patch[],
): GeneratedResource {
  const { serviceName, edsConfig } = cluster.edsClusterConfig ?? {};
  const usesEds = cluster.type === Cluster.DiscoveryType.EDS && !isElsewhere(edsConfig);
  const endpoints = usesEds ? [serviceName || name] : [];
  for (const ref of endpoints) {
    if (refs.includes(ref)) continue;
    throw misfit(labelsOf(patches), `the cluster ${name} would refer to endpoints ${ref}, which do not exist`);
  }
  return { name, bytes: encode(Cluster, cluster), refs: endpoints };
}
