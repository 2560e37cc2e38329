/**
 * Inbound listeners of sidecars: one takes all redirected connections and distinguishes them by their original port;
 * without redirection, each port has a listener on the workload's own addresses.
 */
import { SDS_CLUSTER_METADATA } from '../../core/proxy.ts';
import { envoy } from '../../protobuf/index.ts';
import {
  addressOf,
  BLACKHOLE_CLUSTER,
  cidrRange,
  familiesOf,
  INBOUND_PASSTHROUGH_CLUSTER_IPV4,
  INBOUND_PASSTHROUGH_CLUSTER_IPV6,
  isSocketPath,
  listenerName,
  scopeOfView,
  toDuration,
  VIRTUAL_INBOUND_LISTENER,
  VIRTUAL_LISTENER_UNIT,
  wildcardBinds,
} from '../common/index.ts';
import {
  type FilterChain,
  type FilterChainMatch,
  forwardingFilters,
  type ProtocolKind,
  serverPeerExchange,
  sniffs,
  tcpProxyChain,
  telemetryOf,
  telemetryProblems,
} from '../filters/index.ts';
import { type InboundPlan, type InboundPortPlan, inboundPlan } from '../listener-plans/index.ts';
import {
  type Certificates,
  guardedConnections,
  guardedManager,
  policyProblems,
  requestFilters,
} from '../policies/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { GeneratedResource, GenerationFinding, Unit, UnitOutput } from '../types.ts';
import type { InboundView, IpFamily } from '../views.ts';
import { type HttpConnectionManagerOptions, httpConnectionManager, SERVER_NAME } from './http-connection-manager.ts';
import { type Access, accessTo, type Encryption, guardedChains, inspectsTls } from './inbound-access.ts';
import {
  detectionTimeout,
  httpInspector,
  type InspectedPorts,
  originalDestination,
  tlsInspector,
} from './listener-filters.ts';
import { listenerAddresses, listenerResource, type NamedListener } from './listener-resource.ts';

const { INBOUND } = envoy.config.core.v3.TrafficDirection;
const { APPEND_FORWARD, SANITIZE_SET } =
  envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.ForwardClientCertDetails;
type ListenerFilter = envoy.config.listener.v3.ListenerFilter.Input;
const NOTHING: UnitOutput = { resources: [], findings: [] };

/** The virtual listener (only with redirection) and the ports with their own listeners. */
export function inboundListenerUnits(snapshot: MeshReader, view: InboundView): readonly Unit[] {
  const scope = scopeOfView(snapshot, view);
  if (scope === undefined) return [];
  const bound = inboundPlan(snapshot, view, scope).ports.filter(({ binds }) => binds.length > 0);
  const units = bound.map(({ port }) => String(port));
  return view.interception === 'NONE' ? units : [...units, VIRTUAL_LISTENER_UNIT];
}

export function inboundListeners(snapshot: MeshReader, view: InboundView, unit: Unit): UnitOutput {
  const scope = scopeOfView(snapshot, view);
  if (scope === undefined) return NOTHING;
  const plan = inboundPlan(snapshot, view, scope);
  if (unit === VIRTUAL_LISTENER_UNIT) {
    if (view.interception === 'NONE') return NOTHING;
    const shared = plan.ports.filter(({ binds }) => binds.length === 0);
    return {
      resources: [virtualInbound(snapshot, view, shared)],
      findings: findingsOf(snapshot, view, plan, shared, unit),
    };
  }
  const own = plan.ports.filter(({ port, binds }) => String(port) === unit && binds.length > 0);
  const resources = own.flatMap((port) => port.binds.map((bind) => boundListener(snapshot, view, port, bind)));
  return { resources, findings: findingsOf(snapshot, view, plan, own, unit) };
}

function findingsOf(
  snapshot: MeshReader,
  view: InboundView,
  { conflicts }: InboundPlan,
  ports: readonly InboundPortPlan[],
  unit: Unit,
): GenerationFinding[] {
  const refused = ports.filter(({ port }) => accessTo(view, port) === 'REFUSE').map(({ port }) => `port ${port}`);
  if (unit === VIRTUAL_LISTENER_UNIT && accessTo(view) === 'REFUSE') refused.push('ports of no service');
  const finding = (metric: GenerationFinding['metric'], message: string): GenerationFinding => {
    return { metric, type: 'lds', unit, message };
  };
  const found = ports
    .flatMap(({ port }) => conflicts.get(port) ?? [])
    .map((message) => finding('ctl_conflict_inbound_listener', message));
  for (const { port, tls } of ports) {
    if (tls !== undefined && accessTo(view, port) === 'STRICT') {
      const why = 'PeerAuthentication requires mutual TLS of the mesh';
      found.push(finding('ctl_conflict_inbound_listener', `port ${port}: tls of the Sidecar has no effect: ${why}`));
    } else if (tls?.closed !== undefined) {
      const message = `port ${port}: clients outside the mesh are denied: Sidecar: ${tls.closed}`;
      found.push(finding('ctl_refused_inbound_ports', message));
    }
  }
  for (const message of policyProblems(snapshot, view)) found.push(finding('ctl_policy_problems', message));
  for (const message of telemetryProblems(snapshot, view)) found.push(finding('ctl_telemetry_problems', message));
  if (refused.length > 0) {
    const why = `mutual TLS is required, and its proxy cannot get certificates (node metadata ${SDS_CLUSTER_METADATA})`;
    const message = `${refused.join(', ')}: workloads in namespace ${view.namespace} deny all clients: ${why}`;
    found.push(finding('ctl_refused_inbound_ports', message));
  }
  return found;
}

function virtualInbound(snapshot: MeshReader, view: InboundView, all: readonly InboundPortPlan[]): GeneratedResource {
  const port = snapshot.mesh.proxyInboundListenPort;
  const ports = all.filter((plan) => plan.port !== port);
  const listener: NamedListener = {
    name: VIRTUAL_INBOUND_LISTENER,
    ...listenerAddresses(wildcardBinds(view), port),
    trafficDirection: INBOUND,
    ...(view.interception === 'TPROXY' && { transparent: { value: true } }),
    filterChains: [
      // A connection to the listener's own port was not redirected: passing it through would loop forever.
      tcpProxyChain(telemetryOf(snapshot, view), BLACKHOLE_CLUSTER, {
        name: 'virtualInbound-blackhole',
        filterChainMatch: { destinationPort: { value: port } },
      }),
      ...ports.flatMap((plan) => portChains(snapshot, view, plan, { destinationPort: { value: plan.port } })),
      ...familiesOf(view).flatMap((family) => passthroughChains(snapshot, view, family)),
    ],
    ...inspected(snapshot, originalDestination(view), [
      ...tlsInspectorFor(snapshot, view, ports),
      ...httpInspectorFor(snapshot, view, ports),
    ]),
  };
  return listenerResource(listener, []);
}

/** The kind of ports that no service declares: their protocol is unknown. */
function undeclaredKind({ settings }: MeshReader, view: InboundView): ProtocolKind {
  return sniffs(settings, 'sniffInbound', view) ? 'auto' : 'tcp';
}

/** The TLS inspector, for ports that accept mutual TLS; it comes before protocol detection. */
function tlsInspectorFor(snapshot: MeshReader, view: InboundView, ports: readonly InboundPortPlan[]): ListenerFilter[] {
  const undeclared = undeclaredKind(snapshot, view) === 'auto' || inspectsTls(accessTo(view));
  const inspected = inspectedPorts(ports, (plan) => needsTlsInspector(view, plan), undeclared);
  return inspected === undefined ? [] : tlsInspector(view, inspected);
}

function needsTlsInspector(view: InboundView, { kind, port, tls }: InboundPortPlan): boolean {
  return kind === 'auto' || tls !== undefined || inspectsTls(accessTo(view, port));
}

function httpInspectorFor(
  snapshot: MeshReader,
  view: InboundView,
  ports: readonly InboundPortPlan[],
): ListenerFilter[] {
  const undeclared = sniffsHttp(undeclaredKind(snapshot, view), accessTo(view));
  const inspected = inspectedPorts(ports, ({ kind, port }) => sniffsHttp(kind, accessTo(view, port)), undeclared);
  return inspected === undefined ? [] : httpInspector(view, inspected);
}

/** The ports that a listener for all ports must inspect; undefined if no connection has to be inspected. */
function inspectedPorts(
  ports: readonly InboundPortPlan[],
  needs: (plan: InboundPortPlan) => boolean,
  undeclared: boolean,
): InspectedPorts | undefined {
  if (undeclared) return { except: ports.filter((plan) => !needs(plan)).map(({ port }) => port) };
  const only = ports.filter(needs).map(({ port }) => port);
  return only.length === 0 ? undefined : { only };
}

/** Inside mutual TLS the client's proxy announces whether it is HTTP. */
function sniffsHttp(kind: ProtocolKind, access: Access): boolean {
  return kind === 'auto' && (access === 'DISABLE' || access === 'PERMISSIVE');
}

function inspected(
  { settings }: MeshReader,
  before: readonly ListenerFilter[],
  inspectors: readonly ListenerFilter[],
): Pick<NamedListener, 'listenerFilters' | 'listenerFiltersTimeout' | 'continueOnListenerFiltersTimeout'> {
  return {
    listenerFilters: [...before, ...inspectors],
    // Connections of clients that wait for the server to send first count as plain text after this time.
    ...(inspectors.length > 0 && detectionTimeout(settings.inboundDetectionTimeoutMs)),
  };
}

/**
 * Ports that no service declares: connections are forwarded to the application, and HTTP requests are handled as at
 * other ports, with the same policies and the same header about the client's certificate.
 */
function passthroughChains(snapshot: MeshReader, view: InboundView, family: IpFamily): FilterChain[] {
  const [cluster, everything] =
    family === 'ipv6'
      ? [INBOUND_PASSTHROUGH_CLUSTER_IPV6, cidrRange('::/0')]
      : [INBOUND_PASSTHROUGH_CLUSTER_IPV4, cidrRange('0.0.0.0/0')];
  const routes = inboundRoutes({ routeName: cluster, cluster, hostname: cluster, servicePort: 0, grpc: false });
  return guardedChains(snapshot, view, {
    name: (inside) => `virtualInbound-catchall-${inside}`,
    kind: undeclaredKind(snapshot, view),
    match: everything === undefined ? {} : { prefixRanges: [everything] },
    access: accessTo(view),
    http: (encryption) => [
      guardedRequests(snapshot, view, { statPrefix: cluster, routes, grpcWeb: false, encryption, extra: ALL_VERSIONS }),
    ],
    tcp: (encryption) => guardedBytes(snapshot, view, { cluster }, encryption),
    blackhole: () => tcpProxyChain(telemetryOf(snapshot, view), BLACKHOLE_CLUSTER).filters,
  });
}

function boundListener(
  snapshot: MeshReader,
  view: InboundView,
  plan: InboundPortPlan,
  bind: string,
): GeneratedResource {
  const port = isSocketPath(bind) ? 0 : plan.port;
  const inspectors = [
    ...(needsTlsInspector(view, plan) ? tlsInspector(view) : []),
    ...(sniffsHttp(plan.kind, accessTo(view, plan.port)) ? httpInspector(view) : []),
  ];
  const listener: NamedListener = {
    name: listenerName(bind, port),
    address: addressOf(bind, port),
    trafficDirection: INBOUND,
    filterChains: portChains(snapshot, view, plan, {}),
    ...(inspectors.length > 0 && inspected(snapshot, [], inspectors)),
  };
  return listenerResource(listener, []);
}

function portChains(
  snapshot: MeshReader,
  view: InboundView,
  plan: InboundPortPlan,
  match: FilterChainMatch,
): FilterChain[] {
  return guardedChains(snapshot, view, {
    kind: plan.kind,
    match,
    access: accessTo(view, plan.port),
    ownTls: plan.tls,
    http: (encryption) => [
      guardedRequests(snapshot, view, {
        statPrefix: `inbound_${listenerName(wildcardBinds(view).bind, plan.port)}`,
        routes: inboundRoutes(plan),
        grpcWeb: plan.grpcWeb,
        encryption,
        ...(plan.kind === 'auto' && { extra: ALL_VERSIONS }),
      }),
    ],
    tcp: (encryption) => guardedBytes(snapshot, view, plan, encryption),
    blackhole: () => tcpProxyChain(telemetryOf(snapshot, view), BLACKHOLE_CLUSTER).filters,
  });
}

type ManagerExtra = NonNullable<HttpConnectionManagerOptions['extra']>;

/** For ports that no service declares: the application receives requests of every HTTP version. */
const ALL_VERSIONS: ManagerExtra = { httpProtocolOptions: { acceptHttp_10: true } };

interface GuardedRequests {
  readonly statPrefix: string;
  readonly routes: envoy.config.route.v3.RouteConfiguration.Input;
  readonly grpcWeb: boolean;
  readonly encryption: Encryption;
  readonly extra?: ManagerExtra;
}

/** Requests to the application, after the policies about requests. */
function guardedRequests(
  snapshot: MeshReader,
  view: InboundView,
  { statPrefix, routes, grpcWeb, encryption, extra }: GuardedRequests,
) {
  return httpConnectionManager(snapshot, view, {
    statPrefix,
    routes: { inline: routes },
    useRemoteAddress: false,
    serverName: SERVER_NAME,
    grpcWeb,
    guards: requestFilters(snapshot, view, certificatesOf(encryption)),
    extra: { ...guardedManager(snapshot, view), ...CLIENT_CERTIFICATE[encryption], ...extra },
  });
}

/** TCP to a cluster, after the policies about connections. */
function guardedBytes(
  snapshot: MeshReader,
  view: InboundView,
  { cluster, protocol, connections }: Pick<InboundPortPlan, 'cluster'> & Partial<InboundPortPlan>,
  encryption: Encryption,
): FilterChain['filters'] {
  const { settings } = snapshot;
  const { idleTimeout, maxConnectionDuration: maxDuration } = connections ?? {};
  const times = { idleTimeout, maxDuration, tunnel: undefined };
  const onward = forwardingFilters(telemetryOf(snapshot, view), view, cluster, { protocol, settings }, times);
  const guarded = guardedConnections(snapshot, view, certificatesOf(encryption))(onward);
  return encryption === 'mesh' ? [...serverPeerExchange(settings, view), ...guarded] : guarded;
}

function certificatesOf(encryption: Encryption): Certificates {
  return encryption === 'own' ? 'foreign' : 'mesh';
}

/**
 * `x-forwarded-client-cert`: the elements of previous hops from the client's proxy, then the client itself; Envoy adds
 * By and Hash. For clients outside the mesh, the elements of previous hops are removed, and the URI of their
 * certificate is omitted, because the application could mistake it for an identity of the mesh. Without a client
 * certificate the header is removed for every sender.
 */
const CLIENT_CERTIFICATE: Readonly<Record<Encryption, ManagerExtra>> = {
  none: {},
  mesh: {
    forwardClientCertDetails: APPEND_FORWARD,
    setCurrentClientCertDetails: { subject: { value: true }, uri: true },
  },
  own: {
    forwardClientCertDetails: SANITIZE_SET,
    setCurrentClientCertDetails: { subject: { value: true }, dns: true },
  },
};

/**
 * Retries a request that was not sent because the application refused or closed the connection: the client cannot know
 * whether it was processed. Not for gRPC, whose streams Envoy would buffer for the retry.
 */
const RETRIES = { retryOn: 'reset-before-request', numRetries: { value: 2 } } as const;

/** All requests go to the application. The client's proxy sets the timeout. */
function inboundRoutes({
  routeName,
  cluster,
  hostname,
  servicePort,
  grpc,
}: Pick<
  InboundPortPlan,
  'routeName' | 'cluster' | 'hostname' | 'servicePort' | 'grpc'
>): envoy.config.route.v3.RouteConfiguration.Input {
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
            route: { cluster, timeout: toDuration(0), ...(!grpc && { retryPolicy: RETRIES }) },
            decorator: { operation: `${hostname}:${servicePort}/*` },
          },
        ],
      },
    ],
    // Clusters are sent separately; a listener that arrives before them must not be refused.
    validateClusters: { value: false },
  };
}
