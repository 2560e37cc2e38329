/**
 * Clusters of a gateway: of every service exported to its namespace. Which of them its virtual services use changes more often
 * than the services do, and a cluster that is there already makes a new route work at once. Where there are too many services for
 * that, CTL_FILTER_GATEWAY_CLUSTER_CONFIG leaves those that something of the gateway leads to.
 */
import type { MeshSnapshot, Service } from '../../model/types.ts';
import { STATIC_CLUSTERS_UNIT } from '../common/index.ts';
import { targetHosts } from '../indexes/index.ts';
import { isPassedOn } from '../plans/index.ts';
import { askedHosts } from '../policies/index.ts';
import type { GatewayView, Placement, Unit, UnitOutput } from '../types.ts';
import { closedCluster, clusterHosts, clustersOfHost } from './service-clusters.ts';
import { blackHoleCluster } from './static.ts';

export function gatewayClusterUnits(snapshot: MeshSnapshot, view: GatewayView): readonly Unit[] {
  const scope = snapshot.gatewayScope(view.namespace);
  const hosts = clusterHosts(scope).filter((host) => isUsed(snapshot, view, scope.services.get(host)));
  return [...hosts, STATIC_CLUSTERS_UNIT];
}

export function gatewayClusters(
  snapshot: MeshSnapshot,
  view: GatewayView,
  unit: Unit,
  placements: readonly Placement[],
): UnitOutput {
  if (unit === STATIC_CLUSTERS_UNIT) {
    return { resources: [closedCluster(blackHoleCluster(snapshot.mesh.connectTimeout))], findings: [] };
  }
  const scope = snapshot.gatewayScope(view.namespace);
  if (!isUsed(snapshot, view, scope.services.get(unit))) return { resources: [], findings: [] };
  return clustersOfHost(snapshot, view, scope, unit, placements);
}

/** Whether the gateway is to have the service's clusters. */
function isUsed(snapshot: MeshSnapshot, view: GatewayView, service: Service | undefined): boolean {
  if (service === undefined) return false;
  if (!snapshot.settings.filterGatewayClusters) return true;
  const { hostname } = service;
  const routed = view.gateways.some((gateway) => targetHosts(snapshot.virtualServicesOfGateway(gateway)).has(hostname));
  return routed || isPassedOn(snapshot, view, service) || askedHosts(snapshot, view).has(hostname);
}

/** Hosts whose clusters come or go because other routes lead elsewhere, or policies ask somebody else. */
export function* hostsUsedAnew(previous: MeshSnapshot, next: MeshSnapshot, view: GatewayView): Generator<string> {
  if (!next.settings.filterGatewayClusters) return;
  for (const gateway of view.gateways) {
    const [before, after] = [previous, next].map((snapshot) => targetHosts(snapshot.virtualServicesOfGateway(gateway)));
    if (before === after || before === undefined || after === undefined) continue;
    yield* before.symmetricDifference(after);
  }
  yield* askedHosts(previous, view).symmetricDifference(askedHosts(next, view));
}
