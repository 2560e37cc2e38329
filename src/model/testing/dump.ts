/** Everything that a snapshot answers, as plain data that can be compared. For tests. */
import type { Labels } from '../common/labels.ts';
import type { Scope, Snapshot } from '../types/types.ts';

/** The queries to make: a snapshot cannot list the possible ones. */
export interface Questions {
  readonly proxies: readonly { readonly namespace: string; readonly labels: Labels }[];
  readonly hosts: readonly string[];
  readonly addresses: readonly string[];
  readonly networks: readonly string[];
  readonly gateways: readonly string[];
}

export function dumpScope(scope: Scope | undefined, hosts: readonly string[]): unknown {
  if (scope === undefined) return undefined;
  return {
    id: scope.id,
    namespace: scope.namespace,
    sidecar: scope.sidecar,
    ingress: scope.ingress,
    policy: scope.outboundTrafficPolicy,
    egressProxy: scope.egressProxy,
    inboundConnectionPool: scope.inboundConnectionPool,
    services: scope.services.sorted(),
    egress: scope.egress.map(({ services, ...listener }) => ({ ...listener, services: services.sorted() })),
    rules: hosts.map((host) => [host, scope.destinationRule(host)]),
  };
}

export function dumpSnapshot(snapshot: Snapshot, ask: Questions): unknown {
  const scopes = ask.proxies.map(({ namespace, labels }) => snapshot.scopeOf(namespace, labels));
  return {
    services: snapshot.services.sorted(),
    endpoints: snapshot.endpoints.sorted(),
    carried: snapshot.carriedEndpoints.sorted(),
    peers: snapshot.peers.sorted(),
    peerAuthentication: ask.proxies.map(({ namespace, labels }) => snapshot.peerAuthenticationOf(namespace, labels)),
    byHost: ask.hosts.map((host) => [host, snapshot.servicesByHost(host)]),
    instances: ask.networks.map((network) => ask.addresses.map((address) => snapshot.instancesAt(network, address))),
    networks: [...snapshot.networkNames],
    workloadRanges: snapshot.workloadRanges,
    owners: ask.addresses.map((address) => snapshot.ownersOf(address)),
    addressClusters: [...snapshot.addressClusters],
    endpointClusters: [...snapshot.endpointClusters],
    gateways: ask.proxies.map(({ namespace, labels }) =>
      snapshot.gatewaysFor(namespace, labels).map(({ meta, content }) => ({ meta, content })),
    ),
    gatewayRoutes: ask.gateways.map((gateway) => [gateway, snapshot.virtualServicesOfGateway(gateway)]),
    scopes: scopes.map((scope) => dumpScope(scope, ask.hosts)),
    gatewayScopes: ask.proxies.map(({ namespace }) => dumpScope(snapshot.gatewayScope(namespace), ask.hosts)),
    places: [...snapshot.localityNames].sort(),
    sourceLabels: scopes.map(({ id }) => snapshot.sourceLabels(id)),
    ruleLabels: scopes.map((scope) => snapshot.ruleLabels(scope)),
    findings: snapshot.findings(),
    withoutInstances: snapshot.clustersWithoutInstances(),
    nameConflicts: snapshot.nameConflicts(),
  };
}
