/**
 * Inbound listeners of sidecars: one takes all redirected connections and tells them apart by their original port; without
 * redirection, each port has a listener on the workload's own addresses.
 */
import type { Snapshot } from '../../model/types.ts';
import { envoy } from '../../protobuf/index.ts';
import {
  BLACKHOLE_CLUSTER,
  INBOUND_PASSTHROUGH_CLUSTER_IPV4,
  INBOUND_PASSTHROUGH_CLUSTER_IPV6,
  listenerName,
  VIRTUAL_INBOUND_LISTENER,
  VIRTUAL_LISTENER_UNIT,
} from '../names.ts';
import type { GeneratedResource, GenerationFinding, InboundView, Unit, UnitOutput } from '../types.ts';
import { addressOf, durationOf, isSocketPath } from '../values.ts';
import { scopeOfView } from '../view-scope.ts';
import { cidrRange } from './cidr.ts';
import { httpConnectionManager, SERVER_NAME } from './http-connection-manager.ts';
import { type InboundPlan, type InboundPortPlan, inboundPlan } from './inbound-plan.ts';
import {
  besideSniffedHttp,
  detectionTimeout,
  httpInspector,
  originalDestination,
  SNIFFED_HTTP,
  tlsInspector,
} from './listener-filters.ts';
import { listenerResource, type NamedListener } from './listener-resource.ts';
import { wildcardAddress } from './port-plan.ts';
import { type FilterChain, type FilterChainMatch, tcpProxyChain } from './tcp-proxy.ts';

const { INBOUND } = envoy.config.core.v3.TrafficDirection;
const NOTHING: UnitOutput = { resources: [], findings: [] };

/** The virtual listener (not without redirection) and the ports that have listeners of their own. */
export function inboundListenerUnits(snapshot: Snapshot, view: InboundView): readonly Unit[] {
  const scope = scopeOfView(snapshot, view);
  if (scope === undefined) return [];
  const bound = inboundPlan(snapshot, view, scope).ports.filter(({ binds }) => binds.length > 0);
  const units = bound.map(({ port }) => String(port));
  return view.interception === 'NONE' ? units : [...units, VIRTUAL_LISTENER_UNIT];
}

export function inboundListeners(snapshot: Snapshot, view: InboundView, unit: Unit): UnitOutput {
  const scope = scopeOfView(snapshot, view);
  if (scope === undefined) return NOTHING;
  const plan = inboundPlan(snapshot, view, scope);
  if (unit === VIRTUAL_LISTENER_UNIT) {
    if (view.interception === 'NONE') return NOTHING;
    const shared = plan.ports.filter(({ binds }) => binds.length === 0);
    return { resources: [virtualInbound(snapshot, view, shared)], findings: findingsOf(plan, shared, unit) };
  }
  const own = plan.ports.filter(({ port, binds }) => String(port) === unit && binds.length > 0);
  const resources = own.flatMap((port) => port.binds.map((bind) => boundListener(snapshot, view, port, bind)));
  return { resources, findings: findingsOf(plan, own, unit) };
}

function findingsOf({ conflicts }: InboundPlan, ports: readonly InboundPortPlan[], unit: Unit): GenerationFinding[] {
  return ports
    .flatMap(({ port }) => conflicts.get(port) ?? [])
    .map((message) => ({ metric: 'ctl_conflict_inbound_listener', type: 'lds', unit, message }));
}

function virtualInbound(snapshot: Snapshot, view: InboundView, ports: readonly InboundPortPlan[]): GeneratedResource {
  const port = snapshot.mesh.proxyInboundListenPort;
  const sniffed = ports.filter(({ kind }) => kind === 'auto').map((plan) => plan.port);
  const listener: NamedListener = {
    name: VIRTUAL_INBOUND_LISTENER,
    address: addressOf(wildcardAddress(view), port),
    trafficDirection: INBOUND,
    ...(view.interception === 'TPROXY' && { transparent: { value: true } }),
    filterChains: [
      // A connection to the listener's own port was not redirected: passing it on would never end.
      tcpProxyChain(snapshot, view, BLACKHOLE_CLUSTER, {
        name: 'virtualInbound-blackhole',
        filterChainMatch: { destinationPort: { value: port } },
      }),
      ...ports
        .filter((plan) => plan.port !== port)
        .flatMap((plan) => portChains(snapshot, view, plan, { destinationPort: { value: plan.port } })),
      passthroughChain(snapshot, view),
    ],
    listenerFilters: [
      ...originalDestination(view),
      ...(sniffed.length > 0 ? [...tlsInspector(view, sniffed), ...httpInspector(view, sniffed)] : []),
    ],
    ...(sniffed.length > 0 && detectionTimeout(snapshot.settings.inboundDetectionTimeoutMs)),
  };
  return listenerResource(listener, []);
}

/** Ports that no service declares: connections go to the application as they came. */
function passthroughChain(snapshot: Snapshot, view: InboundView): FilterChain {
  const [cluster, everything] = view.ipv6Only
    ? [INBOUND_PASSTHROUGH_CLUSTER_IPV6, cidrRange('::/0')]
    : [INBOUND_PASSTHROUGH_CLUSTER_IPV4, cidrRange('0.0.0.0/0')];
  return tcpProxyChain(snapshot, view, cluster, {
    name: 'virtualInbound-catchall-tcp',
    ...(everything !== undefined && { filterChainMatch: { prefixRanges: [everything] } }),
  });
}

function boundListener(snapshot: Snapshot, view: InboundView, plan: InboundPortPlan, bind: string): GeneratedResource {
  const port = isSocketPath(bind) ? 0 : plan.port;
  const listener: NamedListener = {
    name: listenerName(bind, port),
    address: addressOf(bind, port),
    trafficDirection: INBOUND,
    filterChains: portChains(snapshot, view, plan, {}),
    ...(plan.kind === 'auto' && {
      listenerFilters: [...tlsInspector(view), ...httpInspector(view)],
      ...detectionTimeout(snapshot.settings.inboundDetectionTimeoutMs),
    }),
  };
  return listenerResource(listener, []);
}

/** One chain, or two where the first bytes decide. */
function portChains(
  snapshot: Snapshot,
  view: InboundView,
  plan: InboundPortPlan,
  match: FilterChainMatch,
): FilterChain[] {
  const chains: FilterChain[] = [];
  if (plan.kind !== 'tcp') {
    const filterChainMatch = plan.kind === 'auto' ? { ...match, ...SNIFFED_HTTP } : match;
    const filter = httpConnectionManager(snapshot, view, {
      statPrefix: `inbound_${listenerName(wildcardAddress(view), plan.port)}`,
      routes: { inline: inboundRoutes(plan) },
      useRemoteAddress: false,
      serverName: SERVER_NAME,
      grpcWeb: plan.grpcWeb,
    });
    chains.push({ ...matching(filterChainMatch), filters: [filter] });
  }
  if (plan.kind !== 'http') {
    const bytes = tcpProxyChain(snapshot, view, plan.cluster, matching(match));
    chains.push(...(plan.kind === 'auto' ? besideSniffedHttp(bytes) : [bytes]));
  }
  return chains;
}

function matching(filterChainMatch: FilterChainMatch): Pick<FilterChain, 'filterChainMatch'> {
  return Object.keys(filterChainMatch).length === 0 ? {} : { filterChainMatch };
}

/** Everything to the application. How long it may take, the client's side has said. */
function inboundRoutes({
  routeName,
  cluster,
  hostname,
  servicePort,
}: InboundPortPlan): envoy.config.route.v3.RouteConfiguration.Input {
  return {
    name: routeName,
    virtualHosts: [
      {
        name: `inbound|http|${servicePort}`,
        domains: ['*'],
        routes: [
          {
            name: 'default',
            match: { prefix: '/' },
            route: { cluster, timeout: durationOf(0) },
            decorator: { operation: `${hostname}:${servicePort}/*` },
          },
        ],
      },
    ],
    // Clusters come by a stream of their own; a listener that is there first must not be refused for it.
    validateClusters: { value: false },
  };
}
