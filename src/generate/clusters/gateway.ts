/**
 * Clusters of a gateway: for every service exported to its namespace. Virtual services change more often than services,
 * and a new route takes effect at once if the cluster is already present. If there are too many services for that,
 * CTL_FILTER_GATEWAY_CLUSTER_CONFIG limits the clusters to destinations of the gateway.
 */
import type { Service } from '../../model/index.ts';
import { STATIC_CLUSTERS_UNIT } from '../common/index.ts';
import { collectorHosts } from '../filters/index.ts';
import { isPassedOn } from '../listener-plans/index.ts';
import { authorizerHosts, callsHost } from '../policies/index.ts';
import { type MeshReader, unrecorded } from '../reads/index.ts';
import type { Unit, UnitOutput } from '../types.ts';
import type { GatewayView, Placement } from '../views.ts';
import { closedCluster, clustersOfHost } from './service-clusters.ts';
import { blackHoleCluster } from './static.ts';

export function gatewayClusterUnits(snapshot: MeshReader, view: GatewayView): readonly Unit[] {
  const { services } = snapshot.gatewayScope(view.namespace);
  const hosts = services.hosts();
  if (!snapshot.settings.filterGatewayClusters) return [...hosts, STATIC_CLUSTERS_UNIT];
  const used = authorizerHosts(snapshot, view).union(targetsOf(snapshot, view)).union(collectorHosts(snapshot.mesh));
  const isWanted = (host: string): boolean => {
    if (used.has(host)) return true;
    // Reading the hosts has recorded their services.
    const service = unrecorded(() => services.get(host));
    return service !== undefined && isPassedOn(snapshot, view, service);
  };
  return [...hosts.filter(isWanted), STATIC_CLUSTERS_UNIT];
}

function targetsOf(snapshot: MeshReader, { gateways }: GatewayView): ReadonlySet<string> {
  const found = new Set<string>();
  for (const gateway of gateways)
    for (const host of snapshot.virtualServicesOfGateway(gateway).targets()) found.add(host);
  return found;
}

export function gatewayClusters(
  snapshot: MeshReader,
  view: GatewayView,
  unit: Unit,
  placements: readonly Placement[],
): UnitOutput {
  if (unit === STATIC_CLUSTERS_UNIT) {
    return { resources: [closedCluster(blackHoleCluster(snapshot.mesh.connectTimeout))], findings: [] };
  }
  const scope = snapshot.gatewayScope(view.namespace, view.ruleLabels);
  if (!isUsed(snapshot, view, scope.services.get(unit))) return { resources: [], findings: [] };
  return clustersOfHost(snapshot, view, scope, unit, placements);
}

/** Whether the gateway needs the service's clusters. */
function isUsed(snapshot: MeshReader, view: GatewayView, service: Service | undefined): boolean {
  if (service === undefined) return false;
  if (!snapshot.settings.filterGatewayClusters) return true;
  const { hostname } = service;
  const routed = view.gateways.some((gateway) => snapshot.virtualServicesOfGateway(gateway).leadTo(hostname));
  const called = callsHost(snapshot, view, hostname) || collectorHosts(snapshot.mesh).has(hostname);
  return routed || called || isPassedOn(snapshot, view, service);
}
