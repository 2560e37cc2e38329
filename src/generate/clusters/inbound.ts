/** Clusters of a sidecar's inbound part: the application's own ports, and the original port of other connections. */
import type { Protocol } from '../../model/index.ts';
import type { envoy } from '../../protobuf/index.ts';
import type { ConnectionPool, SidecarIngress } from '../../resources/index.ts';
import {
  addressOf,
  type Binds,
  effectivePolicy,
  familiesOf,
  INBOUND_CLUSTERS_UNIT,
  inboundClusterName,
  loopbackBinds,
  scopeOfView,
} from '../common/index.ts';
import { type MetricsSource, metricsSource, serviceMetadata } from '../filters/index.ts';
import { ingressProtocol } from '../listener-plans/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { Unit, UnitOutput } from '../types.ts';
import type { InboundPort, InboundView } from '../views.ts';
import { circuitBreakers, connectionSettings } from './circuit-breakers.ts';
import { closedCluster } from './service-clusters.ts';
import { statName } from './stat-names.ts';
import {
  CLUSTER_PROVIDED,
  inboundPassthroughCluster,
  inboundSource,
  type NamedCluster,
  ORIGINAL_DST,
  STATIC,
} from './static.ts';
import { protocolOptions, upstreamHttp } from './upstream-protocol.ts';

const NOTHING: UnitOutput = { resources: [], findings: [] };

/** The inbound part is small, as is the workload's list of ports: one unit. */
export function inboundClusterUnits(snapshot: MeshReader, view: InboundView): readonly Unit[] {
  return scopeOfView(snapshot, view) === undefined ? [] : [INBOUND_CLUSTERS_UNIT];
}

export function inboundClusters(snapshot: MeshReader, view: InboundView, unit: Unit): UnitOutput {
  const scope = scopeOfView(snapshot, view);
  if (scope === undefined || unit !== INBOUND_CLUSTERS_UNIT) return NOTHING;
  const clusters = new Map<string, NamedCluster>();
  // One cluster per port: several services with the same target port share one application.
  const add = (cluster: NamedCluster | undefined) => {
    if (cluster !== undefined && !clusters.has(cluster.name)) clusters.set(cluster.name, cluster);
  };
  const served = Map.groupBy(view.ports, ({ targetPort }) => targetPort);
  const metrics = metricsSource(snapshot, view);
  if (scope.ingress !== undefined) {
    for (const ingress of scope.ingress) {
      const { number = 0 } = ingress.port;
      const ports = served.get(number);
      const pool = ingress.connectionPool ?? scope.inboundConnectionPool ?? poolOfRules(scope, ports, number);
      const cluster = ingressCluster(snapshot, view, ingress, pool);
      add(cluster && { ...cluster, ...ingressLabels(snapshot, metrics, scope, { ingress, port: ports?.[0] }) });
    }
  } else {
    for (const [targetPort, ports] of served) {
      const [first] = ports;
      if (first === undefined) continue;
      const endpoint = endpointAt(loopbackBinds(view), targetPort);
      const pool = scope.inboundConnectionPool ?? poolOfRules(scope, ports);
      const cluster = applicationCluster(snapshot, inboundClusterName(targetPort), first.protocol, endpoint, pool);
      add({ ...cluster, ...labelled(snapshot, metrics, first) });
    }
  }
  if (view.interception !== 'NONE') {
    for (const family of familiesOf(view)) add(inboundPassthroughCluster(family, snapshot.mesh.connectTimeout));
  }
  return { resources: [...clusters.values()].map(closedCluster), findings: [] };
}

/**
 * The connection pool of the destination rule for a port, which also limits what the proxy sends to the application. Of
 * several services at the port, the first with a pool is used. @param at the port whose settings apply, if it is not
 * that of the service
 */
function poolOfRules(scope: ScopeReader, ports: readonly InboundPort[] = [], at?: number): ConnectionPool | undefined {
  for (const { hostname, servicePort } of ports) {
    const { connectionPool } = effectivePolicy(scope.rules.of(hostname), undefined, at ?? servicePort);
    if (connectionPool !== undefined) return connectionPool;
  }
  return undefined;
}

/** The names of the cluster and its service in statistics. */
function labelled(
  { settings, mesh }: MeshReader,
  metrics: MetricsSource | undefined,
  { targetPort, servicePort, portName, hostname: host, namespace }: Omit<InboundPort, 'protocol'>,
): ReturnType<typeof statName> & ReturnType<typeof serviceMetadata> {
  const suffix = `.${namespace}.svc.${settings.domain}`;
  const shortName = host.endsWith(suffix) ? host.slice(0, -suffix.length) : undefined;
  const named = { host, shortName, namespace, subset: '', port: servicePort, portName, targetPort };
  return {
    ...statName(mesh.inboundClusterStatName, named),
    ...serviceMetadata(metrics, { host, name: shortName ?? host, namespace }),
  };
}

/**
 * The same for an ingress listener. As in Istio, the port is that of the listener, and the service is one whose
 * application is at that port. Without such a service, the names in statistics are those of the Sidecar.
 */
function ingressLabels(
  snapshot: MeshReader,
  metrics: MetricsSource | undefined,
  { sidecar = '', namespace }: ScopeReader,
  { ingress, port }: { readonly ingress: SidecarIngress; readonly port: InboundPort | undefined },
): ReturnType<typeof labelled> {
  const { number = 0, name: portName = '' } = ingress.port;
  const own = { servicePort: number, portName, targetPort: number };
  if (port !== undefined) return labelled(snapshot, metrics, { ...port, ...own });
  const host = `${sidecar.slice(sidecar.lastIndexOf('/') + 1)}.${namespace}`;
  return labelled(snapshot, undefined, { ...own, hostname: host, namespace });
}

type ApplicationEndpoint = envoy.config.endpoint.v3.Endpoint.Input;

/** On a machine with both families, the second address is tried if the application does not respond at the first. */
function endpointAt({ bind, extraBind }: Binds, port: number): ApplicationEndpoint {
  const address = addressOf(bind, port);
  return extraBind === undefined
    ? { address }
    : { address, additionalAddresses: [{ address: addressOf(extraBind, port) }] };
}

function applicationCluster(
  snapshot: MeshReader,
  name: string,
  protocol: Protocol,
  endpoint: ApplicationEndpoint,
  pool: ConnectionPool | undefined,
): NamedCluster {
  return {
    ...commonOf(snapshot, name, protocol, pool),
    type: STATIC,
    loadAssignment: { clusterName: name, endpoints: [{ lbEndpoints: [{ endpoint }] }] },
  };
}

function commonOf(
  snapshot: MeshReader,
  name: string,
  protocol: Protocol,
  pool: ConnectionPool | undefined,
): NamedCluster {
  const { mesh, settings } = snapshot;
  // The application speaks the protocol of its port: upgrade policies are for hops between proxies.
  const { h2UpgradePolicy, ...http } = pool?.http ?? {};
  const speaks = upstreamHttp(protocol, http, settings.sniffInbound, false);
  return {
    name,
    ...connectionSettings(pool, mesh.connectTimeout, undefined),
    ...circuitBreakers(pool),
    ...protocolOptions(speaks, pool),
  };
}

/**
 * The cluster of a Sidecar's ingress listener. `defaultEndpoint` is `127.0.0.1:<port>` (also `[::1]:<port>`),
 * `unix://<path>`, or `0.0.0.0:<port>` / `[::]:<port>` for the workload's own address; without it, the listener's port
 * on the loopback address.
 */
function ingressCluster(
  snapshot: MeshReader,
  view: InboundView,
  ingress: SidecarIngress,
  pool: ConnectionPool | undefined,
): NamedCluster | undefined {
  const { number } = ingress.port;
  if (number === undefined) return undefined;
  const name = inboundClusterName(number);
  const protocol = ingressProtocol(ingress);
  const endpoint = ingress.defaultEndpoint ?? '';
  if (endpoint.startsWith('unix://')) {
    const path = addressOf(endpoint.slice('unix://'.length), 0);
    return applicationCluster(snapshot, name, protocol, { address: path }, pool);
  }
  const colon = endpoint.lastIndexOf(':');
  const port = colon < 0 ? number : Number(endpoint.slice(colon + 1));
  const host = colon < 0 ? '' : endpoint.slice(0, colon).replace(/^\[|\]$/g, '');
  const own = host === '0.0.0.0' || host === '::';
  // Without redirection there is no original destination, so such views have the workload's addresses.
  if (own && view.interception !== 'NONE') {
    return {
      ...commonOf(snapshot, name, protocol, pool),
      type: ORIGINAL_DST,
      lbPolicy: CLUSTER_PROVIDED,
      originalDstLbConfig: { upstreamPortOverride: { value: port } },
      upstreamBindConfig: inboundSource(view.families),
    };
  }
  const address = own ? view.addresses[0] : host || undefined;
  const at = address === undefined ? loopbackBinds(view) : { bind: address, extraBind: undefined };
  return applicationCluster(snapshot, name, protocol, endpointAt(at, port), pool);
}
