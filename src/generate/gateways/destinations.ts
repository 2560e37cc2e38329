/** Destinations of a gateway's TCP connections: TCP and TLS routes of virtual services. */

import { canonicalHost, type Protocol } from '../../model/index.ts';
import type { envoy } from '../../protobuf/index.ts';
import type { L4Match, RouteDestination } from '../../resources/index.ts';
import { commonHosts } from '../domains/index.ts';
import { destinationTraits, tcpFilters, telemetryOf, thriftRateLimit } from '../filters/index.ts';
import type { ServerPlan } from '../listener-plans/index.ts';
import { guardedConnections } from '../policies/index.ts';
import type { MeshReader } from '../reads/index.ts';
import { appliesHere, destinationPort, type RouteContext, weighted, weightedCluster } from '../routes/index.ts';
import type { GatewayView } from '../views.ts';

type NetworkFilters = readonly envoy.config.listener.v3.Filter.Input[];

export interface TcpDestination {
  /** Ranges of the addresses of clients; empty: all clients. */
  readonly sources: readonly string[];
  readonly filters: NetworkFilters;
}

export interface TlsDestination extends TcpDestination {
  readonly sniHosts: readonly string[];
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
        if (sniHosts.length === 0) continue;
        const filters = proxyFilters(snapshot, view, route ?? [], context);
        found.push({ sniHosts, sources: sourcesOf([one]), filters });
      }
    }
  }
  return found;
}

/** The TCP routes that apply to a server, up to the first one for all clients; empty when there is none. */
export function tcpDestinations(
  snapshot: MeshReader,
  view: GatewayView,
  server: ServerPlan,
  context: RouteContext,
): TcpDestination[] {
  const found: TcpDestination[] = [];
  for (const virtualService of snapshot.virtualServicesOfGateway(server.gateway).connections(hostsOf(server))) {
    const { namespace, content } = virtualService;
    if (commonHosts(server.hosts, virtualService).length === 0) continue;
    for (const { match = [], route } of content.tcp ?? []) {
      const clauses = match.filter((clause) => appliesHere(clause, namespace, context));
      if (match.length > 0 && clauses.length === 0) continue;
      const sources = sourcesOf(clauses);
      found.push({ sources, filters: proxyFilters(snapshot, view, route ?? [], context, server.protocol) });
      if (sources.length === 0) return found;
    }
  }
  return found;
}

/** Empty if one of the clauses is for all clients. */
function sourcesOf(clauses: readonly Pick<L4Match, 'sourceSubnet'>[]): readonly string[] {
  const sources = clauses.map(({ sourceSubnet = '' }) => sourceSubnet);
  return sources.includes('') ? [] : sources;
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
