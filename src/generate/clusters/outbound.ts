/** Clusters of a sidecar's outbound part: a unit per host, and one for the clusters that belong to no service. */

import { STATIC_CLUSTERS_UNIT, scopeOfView } from '../common/index.ts';
import { metricsSource, serviceMetadata } from '../filters/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { Unit, UnitOutput } from '../types.ts';
import type { OutboundView, Placement } from '../views.ts';
import { closedCluster, clustersOfHost } from './service-clusters.ts';
import { blackHoleCluster, passthroughCluster } from './static.ts';

const NOTHING: UnitOutput = { resources: [], findings: [] };

export function outboundClusterUnits(snapshot: MeshReader, view: OutboundView): readonly Unit[] {
  const scope = scopeOfView(snapshot, view);
  return scope === undefined ? [] : [...scope.services.hosts(), STATIC_CLUSTERS_UNIT];
}

export function outboundClusters(
  snapshot: MeshReader,
  view: OutboundView,
  unit: Unit,
  placements: readonly Placement[],
): UnitOutput {
  const scope = scopeOfView(snapshot, view);
  if (scope === undefined) return NOTHING;
  if (unit !== STATIC_CLUSTERS_UNIT) return clustersOfHost(snapshot, view, scope, unit, placements);
  const { connectTimeout } = snapshot.mesh;
  const metrics = metricsSource(snapshot, view);
  const clusters = [blackHoleCluster(connectTimeout), passthroughCluster(connectTimeout)].map((cluster) => {
    // As in Istio, connections to unknown destinations are counted under the name of the cluster.
    return { ...cluster, ...serviceMetadata(metrics, { host: '', name: cluster.name, namespace: '' }) };
  });
  return { resources: clusters.map(closedCluster), findings: [] };
}
