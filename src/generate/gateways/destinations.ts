/** Destinations of a gateway's TCP connections: TCP and TLS routes of virtual services. */

import { canonicalHost, type Protocol } from '../../model/index.ts';
import type { envoy } from '../../protobuf/index.ts';
import type { RouteDestination } from '../../resources/index.ts';
import { commonHosts } from '../domains/index.ts';
import { destinationTraits, tcpFilters, telemetryOf, thriftRateLimit } from '../filters/index.ts';
import type { ServerPlan } from '../listener-plans/index.ts';
import { guardedConnections } from '../policies/index.ts';
import type { MeshReader } from '../reads/index.ts';
import { appliesHere, destinationPort, type RouteContext, weighted, weightedCluster } from '../routes/index.ts';
import type { GatewayView } from '../types.ts';

type NetworkFilters = readonly envoy.config.listener.v3.Filter.Input[];

export interface TlsDestination {
  readonly sniHosts: readonly string[];
  readonly filters: NetworkFilters;
}

/** The TLS routes of a passthrough server: each match in the order of the virtual services. */
export function tlsDestinations(
  snapshot: MeshReader,
  view: GatewayView,
  server: ServerPlan,
  context: RouteContext,
): TlsDestination[] {
  const found: TlsDestination[] = [];
  for (const virtualService of snapshot.virtualServicesOfGateway(server.gateway).connections(hostsOf(server))) {
    const { namespace, content } = virtualService;
    if (commonHosts(server.hosts, virtualService).length === 0) continue;
    for (const { match, route } of content.tls ?? []) {
      for (const one of match ?? []) {
        if (!appliesHere(one, namespace, context)) continue;
        const hosts = one.sniHosts.map(canonicalHost);
        const sniHosts = commonHosts(server.hosts, { namespace, hosts });
        if (sniHosts.length > 0) found.push({ sniHosts, filters: proxyFilters(snapshot, view, route ?? [], context) });
      }
    }
  }
  return found;
}

/** The first TCP route that applies to a server; undefined when there is none. */
export function tcpDestination(
  snapshot: MeshReader,
  view: GatewayView,
  server: ServerPlan,
  context: RouteContext,
): NetworkFilters | undefined {
  for (const virtualService of snapshot.virtualServicesOfGateway(server.gateway).connections(hostsOf(server))) {
    const { namespace, content } = virtualService;
    if (commonHosts(server.hosts, virtualService).length === 0) continue;
    const tcp = (content.tcp ?? []).find(
      ({ match }) => !match?.length || match.some((one) => appliesHere(one, namespace, context)),
    );
    if (tcp !== undefined) return proxyFilters(snapshot, view, tcp.route ?? [], context, server.protocol);
  }
  return undefined;
}

function hostsOf({ hosts }: ServerPlan): readonly string[] {
  return hosts.map(({ host }) => host);
}

function proxyFilters(
  snapshot: MeshReader,
  view: GatewayView,
  destinations: readonly RouteDestination[],
  context: RouteContext,
  protocol?: Protocol,
): NetworkFilters {
  const targets = weighted(destinations);
  const clusters = targets.map(({ destination, weight }) => ({
    cluster: weightedCluster(destination, context),
    weight,
  }));
  const { mesh, settings } = snapshot;
  const scope = snapshot.gatewayScope(view.namespace, view.ruleLabels);
  const usable = targets.filter(({ destination }) => destination.unusable !== true);
  const traits = usable.map(({ destination: { destination } }) =>
    destinationTraits(scope, destination.host, destination.subset ?? '', destinationPort(destination, context), {
      at: undefined,
      sds: view.capabilities.sds,
    }),
  );
  const proxy = tcpFilters(telemetryOf(snapshot, view), view, {
    statPrefix: clusters[0]?.cluster ?? 'none',
    clusters,
    destinations: traits,
    port: {
      protocol,
      settings,
      rateLimit: thriftRateLimit(mesh, protocol, targets[0]?.destination.destination.host ?? ''),
    },
  });
  return guardedConnections(snapshot, view)(proxy);
}
