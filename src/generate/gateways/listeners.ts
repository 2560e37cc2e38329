/** Listeners of a gateway: one for each port (and bind address), with a filter chain for each TLS server name. */
import type { GatewayTopology } from '../../core/proxy.ts';
import { envoy } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import { listenerName, meshServerSocket, toDuration } from '../common/index.ts';
import {
  type FilterChain,
  hasExtension,
  PROXY_PROTOCOL_FILTER,
  TLS_INSPECTOR,
  telemetryProblems,
  thriftLimitProblems,
  typedConfig,
} from '../filters/index.ts';
import { gatewayPlan, type ListenerPlan, type ServerPlan } from '../listener-plans/index.ts';
import {
  downstreamTls,
  HANDSHAKE_LIMIT,
  httpConnectionManager,
  listenerAddresses,
  listenerResource,
  type NamedListener,
  SERVER_NAME,
} from '../listeners/index.ts';
import { guardedManager, policyProblems, requestFilters } from '../policies/index.ts';
import type { MeshReader } from '../reads/index.ts';
import { serverCredentials } from '../secrets/index.ts';
import type { GeneratedResource, GenerationFinding, Unit, UnitOutput } from '../types.ts';
import type { GatewayView } from '../views.ts';
import { passingChains } from './auto-passthrough.ts';
import { type DistinctChains, distinctChains, type MatchedChain } from './chain-matches.ts';
import { gatewayContext } from './context.ts';
import { tcpDestinations, tlsDestinations } from './destinations.ts';

const { OUTBOUND } = envoy.config.core.v3.TrafficDirection;
const { ProxyProtocol } = envoy.extensions.filters.listener.proxy_protocol.v3;
const { TlsInspector } = envoy.extensions.filters.listener.tls_inspector.v3;

/**
 * Closes connections at once, for server names without a certificate. They must not reach the chain of another server,
 * such as one for all names, which may be less strict with clients.
 */
const CLOSED: FilterChain = {};

const NOTHING: DistinctChains = { chains: [], refs: [], complaints: [] };

/** The ports of all servers, including ports that cannot be opened, so that their problems are reported. */
export function gatewayListenerUnits(snapshot: MeshReader, view: GatewayView): readonly Unit[] {
  const { listeners, findings } = gatewayPlan(snapshot, view);
  return [...new Set([...listeners.keys(), ...findings.keys()])].sort((a, b) => a - b).map(String);
}

export function gatewayListeners(snapshot: MeshReader, view: GatewayView, unit: Unit): UnitOutput {
  const port = Number(unit);
  const plan = gatewayPlan(snapshot, view);
  const resources: GeneratedResource[] = [];
  const findings: GenerationFinding[] = [...(plan.findings.get(port) ?? [])];
  for (const server of plan.servers.filter((each) => each.port === port)) {
    const missing = serverCredentials(server, snapshot, view)?.missing();
    if (missing === undefined) continue;
    findings.push({ metric: 'ctl_invalid_out_listeners', type: 'lds', unit, message: `${server.label}: ${missing}` });
  }
  for (const listener of plan.listeners.get(port) ?? []) {
    const { chains, refs, complaints } = chainsOf(snapshot, view, listener);
    for (const message of complaints) {
      findings.push({ metric: 'ctl_conflict_outbound_listener_tcp_over_current_tcp', type: 'lds', unit, message });
    }
    // With closed chains only there is no need to listen.
    if (chains.some(({ filters }) => filters?.length))
      resources.push(listenerResource(listenerMessage(snapshot, view, listener, chains), refs));
  }
  const protocols = () => plan.servers.flatMap((each) => (each.port === port ? each.protocol : []));
  for (const message of [...policyProblems(snapshot, view), ...thriftLimitProblems(snapshot, view, protocols)]) {
    findings.push({ metric: 'ctl_policy_problems', type: 'lds', unit, message });
  }
  for (const message of telemetryProblems(snapshot, view)) {
    findings.push({ metric: 'ctl_telemetry_problems', type: 'lds', unit, message });
  }
  return { resources, findings };
}

function listenerMessage(
  { mesh }: MeshReader,
  view: GatewayView,
  plan: ListenerPlan,
  filterChains: readonly FilterChain[],
): NamedListener {
  const { proxyProtocol } = topologyOf(mesh, view);
  const isAsked = proxyProtocol !== undefined && hasExtension(view, PROXY_PROTOCOL_FILTER);
  const listenerFilters = [
    // The first filter, because the header precedes everything else.
    ...(isAsked ? [typedConfig(PROXY_PROTOCOL_FILTER, ProxyProtocol, {})] : []),
    ...(plan.family === 'tls' ? [typedConfig(TLS_INSPECTOR, TlsInspector, {})] : []),
  ];
  return {
    name: listenerName(plan.bind, plan.bindPort),
    ...listenerAddresses(plan, plan.bindPort),
    filterChains,
    trafficDirection: OUTBOUND,
    ...(listenerFilters.length > 0 && { listenerFilters }),
  };
}

function chainsOf(snapshot: MeshReader, view: GatewayView, plan: ListenerPlan): DistinctChains {
  switch (plan.family) {
    case 'http': {
      const [first] = plan.servers;
      if (first === undefined) return NOTHING;
      const grpcWeb = plan.servers.some((server) => server.grpcWeb);
      const chain = httpChain(snapshot, view, plan, first.routeName, grpcWeb);
      return { chains: [chain], refs: [first.routeName], complaints: [] };
    }
    case 'tcp':
      return tcpChains(snapshot, view, plan);
    case 'tls':
      return distinctChains([
        ...plan.servers.flatMap((server) => sniChains(snapshot, view, plan, server)),
        ...passingChains(snapshot, view, plan).map(({ name, label, chain }) => ({
          names: [name],
          sources: [],
          label,
          chain,
          routeName: '',
        })),
      ]);
  }
}

const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
const { SANITIZE, FORWARD_ONLY, APPEND_FORWARD, SANITIZE_SET, ALWAYS_FORWARD_ONLY } =
  HttpConnectionManager.ForwardClientCertDetails;
type Manager = envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Input;

/**
 * Slow networks need seconds for headers; a client that sends them byte by byte (slowloris) holds a connection for at
 * most this long.
 */
const REQUEST_HEADERS_TIMEOUT_MS = 30_000;

const DETAILS = { SANITIZE, FORWARD_ONLY, APPEND_FORWARD, SANITIZE_SET, ALWAYS_FORWARD_ONLY } as const;

/**
 * Fields of the connection manager that protect a gateway against unknown clients: client addresses in headers are only
 * used if proxies in front are trusted (`gatewayTopology`), and incomplete headers time out. Envoy's own limits apply
 * to streams of a connection, windows and sizes of headers.
 */
export function edgeSettings(mesh: MeshConfig, view: Pick<GatewayView, 'topology'> = {}): Partial<Manager> {
  const { numTrustedProxies = 0, forwardClientCertDetails = 'UNDEFINED' } = topologyOf(mesh, view);
  // The header of clients is removed; services receive what Envoy has verified itself.
  const details = DETAILS[forwardClientCertDetails === 'UNDEFINED' ? 'SANITIZE_SET' : forwardClientCertDetails];
  return {
    xffNumTrustedHops: numTrustedProxies,
    forwardClientCertDetails: details,
    setCurrentClientCertDetails: { subject: { value: true }, cert: true, dns: true, uri: true },
    requestHeadersTimeout: toDuration(REQUEST_HEADERS_TIMEOUT_MS),
  };
}

/** The topology in the proxy's node metadata overrides the mesh configuration. */
function topologyOf({ defaultConfig }: MeshConfig, { topology }: Pick<GatewayView, 'topology'>): GatewayTopology {
  return topology ?? defaultConfig.gatewayTopology ?? {};
}

function httpChain(
  snapshot: MeshReader,
  view: GatewayView,
  plan: ListenerPlan,
  routeName: string,
  grpcWeb: boolean,
): FilterChain {
  const filter = httpConnectionManager(snapshot, view, {
    statPrefix: `outbound_${listenerName(plan.bind, plan.bindPort)}`,
    routes: { rds: routeName },
    useRemoteAddress: true,
    serverName: SERVER_NAME,
    grpcWeb,
    guards: requestFilters(snapshot, view),
    extra: { ...guardedManager(snapshot, view), ...edgeSettings(snapshot.mesh, view) },
  });
  return { filters: [filter] };
}

/** Plain TCP has no server name: the first server with a route gets the port. */
function tcpChains(snapshot: MeshReader, view: GatewayView, plan: ListenerPlan): DistinctChains {
  const routed = plan.servers.flatMap((server) => {
    const context = gatewayContext(snapshot, view, plan.port, server.gateway);
    const destinations = tcpDestinations(snapshot, view, server, context);
    return destinations.length === 0 ? [] : [{ server, destinations }];
  });
  const [first, ...others] = routed;
  if (first === undefined) return NOTHING;
  const { label } = first.server;
  const chains = first.destinations.map(({ sources, filters }): MatchedChain => {
    return { names: ['*'], sources, label, chain: { filters }, routeName: '' };
  });
  const complaints = others.map(({ server }) => `${server.label}: port ${plan.port} is taken by ${label}`);
  return { ...distinctChains(chains), complaints };
}

function sniChains(snapshot: MeshReader, view: GatewayView, plan: ListenerPlan, server: ServerPlan): MatchedChain[] {
  const { label, routeName, tls } = server;
  if (server.kind === 'auto-passthrough') return [];
  const context = gatewayContext(snapshot, view, plan.port, server.gateway);
  if (tls === undefined) {
    return tlsDestinations(snapshot, view, server, context).map(({ sniHosts, sources, filters }) => ({
      names: sniHosts,
      sources,
      label,
      chain: { filters },
      routeName,
    }));
  }
  const names = [...new Set(server.hosts.map(({ host }) => host))];
  const credentials = serverCredentials(server, snapshot, view);
  if (credentials?.missing() !== undefined) return [{ names, sources: [], label, chain: CLOSED, routeName: '' }];
  const https = server.kind === 'https';
  const transportSocket =
    tls.mode === 'MESH_MUTUAL'
      ? meshServerSocket(snapshot.settings, snapshot.mesh, https ? 'http' : 'tcp')
      : downstreamTls(tls, credentials, view.capabilities.sds, https ? 'http' : 'tcp');
  if (https) {
    const chain = httpChain(snapshot, view, plan, routeName, server.grpcWeb);
    return [{ names, sources: [], label, chain: { ...chain, ...HANDSHAKE_LIMIT, transportSocket }, routeName }];
  }
  return tcpDestinations(snapshot, view, server, context).map(({ sources, filters }) => ({
    names,
    sources,
    label,
    chain: { filters, ...HANDSHAKE_LIMIT, transportSocket },
    routeName,
  }));
}
