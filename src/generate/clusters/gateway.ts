/**
 * Clusters of a gateway: of every service exported to its namespace. Which of them its virtual services use changes more often
 * than the services do, and a cluster that is there already makes a new route work at once.
 */
import type { Snapshot } from '../../model/types.ts';
import { STATIC_CLUSTERS_UNIT } from '../names.ts';
import type { GatewayView, Unit, UnitOutput } from '../types.ts';
import { closedCluster, clusterHosts, clustersOfHost } from './service-clusters.ts';
import { blackHoleCluster } from './static.ts';

export function gatewayClusterUnits(snapshot: Snapshot, view: GatewayView): readonly Unit[] {
  return [...clusterHosts(snapshot.gatewayScope(view.namespace)), STATIC_CLUSTERS_UNIT];
}

export function gatewayClusters(snapshot: Snapshot, view: GatewayView, unit: Unit): UnitOutput {
  if (unit !== STATIC_CLUSTERS_UNIT) {
    return clustersOfHost(snapshot, view, snapshot.gatewayScope(view.namespace), unit);
  }
  return { resources: [closedCluster(blackHoleCluster(snapshot.mesh.connectTimeout))], findings: [] };
}
