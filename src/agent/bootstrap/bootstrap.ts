/**
 * The bootstrap configuration of Envoy, built as plain data: the compiled protobuf messages would need more memory than
 * the rest of the agent. A test has the real Envoy validate the golden file, so that it knows every field. Fields:
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/bootstrap/v3/bootstrap.proto
 */
import { isIP } from 'node:net';
import { POLICY_CLUSTER, SDS_CLUSTER, XDS_CLUSTER } from '../../core/proxy.ts';
import type { JsonObject, JsonValue } from '../../protobuf/index.ts';
import type { ControlPlane } from '../settings/control-plane.ts';
import type { PolicyIdentity } from '../settings/policy-identity.ts';
import type { LocalAddress } from '../settings/xds-local.ts';
import { address, CERTIFICATE_SECRET, endpoint, http2, members, ROOTS_SECRET, secret } from './parts.ts';
import { metricsSink, type RemoteServices, serviceClusters, tracer } from './services.ts';
import { STATS_EVICTION_INTERVAL, statsConfig, statsdSink } from './stats.ts';

const PROMETHEUS_CLUSTER = 'prometheus_stats';

/** With it Envoy notices a frozen control plane within a minute (HTTP/2 PING), and reconnects. */
const KEEPALIVE_INTERVAL = '30s';
const KEEPALIVE_TIMEOUT = '10s';
/**
 * Delays between attempts to reach the control plane, with jitter by Envoy: short at first, then longer, so that
 * proxies do not reconnect all at once.
 */
const RECONNECT_BASE = '0.5s';
const RECONNECT_MAX = '5s';
/**
 * A stream that is opened after this time gets a new connection, with the certificate of that time; open streams stay.
 * Without it a long-lived connection would continue to use an expired certificate.
 */
const CONNECTION_AGE = '600s';
/**
 * For TCP and TLS together. Envoy's own default is 5 s, but when thousands of proxies connect at once, the handshake of
 * each waits for its turn.
 */
const XDS_CONNECT_TIMEOUT = '10s';
/**
 * Seconds. While a cluster waits for the addresses of a name, Envoy takes no further clusters: a name server that does
 * not answer would hold them up for 50 s, by the default of 5 s and four attempts.
 */
const DNS_TIMEOUT = 1;
const DNS_ATTEMPTS = 3;
/** Envoy's default limit for regular expressions refuses ones that users write. */
const REGEX_PROGRAM_SIZE = 32_768;

export interface BootstrapInput {
  /** `envoy.config.core.v3.Node`. */
  readonly node: JsonObject;
  readonly adminPort: number;
  /** The port of Envoy's own metrics; 0 for no listener. */
  readonly prometheusPort: number;
  /** Whether the workload has an IPv6 address: without IPv6, Envoy cannot listen on `::`. */
  readonly ipv6: boolean;
  readonly controlPlane: ControlPlane;
  /** The agent's xDS proxy, which Envoy then speaks to in plain text; undefined without a proxy. */
  readonly xdsLocal: LocalAddress | undefined;
  /** Unix domain socket of the agent's secrets; undefined without certificates. */
  readonly sdsPath: string | undefined;
  /** Name of the secret with the roots that verify the control plane; undefined: those of the mesh. */
  readonly controlPlaneRoots?: string | undefined;
  /** How the policy component is verified. */
  readonly policy: Pick<PolicyIdentity, 'san' | 'inBootstrap'>;
  /** False for the State of the World protocol. */
  readonly delta: boolean;
  /** Milliseconds; 0 waits for the first configuration without limit. */
  readonly initialFetchTimeoutMs: number;
  /** Empty: no log. */
  readonly outlierLogPath: string;
  readonly minimalStats: boolean;
  readonly countsConnections: boolean;
  readonly extraStatTags: readonly string[];
  /** `host:port`; empty when there is none. */
  readonly statsdUdpAddress: string;
  /** Services to which Envoy sends spans, access logs and metrics. */
  readonly services: RemoteServices;
}

/** `envoy.config.bootstrap.v3.Bootstrap`, JSON form. */
export function bootstrap(input: BootstrapInput): JsonObject {
  const { outlierLogPath, prometheusPort, services } = input;
  const sinks = statsSinks(input);
  return {
    node: input.node,
    admin: admin(input.adminPort),
    layered_runtime: layeredRuntime(),
    overload_manager: overloadManager(),
    typed_dns_resolver_config: dnsResolver(),
    stats_config: statsConfig(input),
    stats_eviction_interval: STATS_EVICTION_INTERVAL,
    ...(sinks.length === 0 ? {} : { stats_sinks: sinks }),
    ...tracer(services),
    ...(outlierLogPath === '' ? {} : { cluster_manager: { outlier_detection: { event_log_path: outlierLogPath } } }),
    dynamic_resources: dynamicResources(input),
    static_resources: {
      clusters: staticClusters(input),
      listeners: prometheusPort === 0 ? [] : [prometheusListener(prometheusPort, input.ipv6)],
    },
  };
}

function statsSinks({ statsdUdpAddress, services }: BootstrapInput): JsonObject[] {
  const statsd = statsdUdpAddress === '' ? [] : [statsdSink(statsdUdpAddress)];
  return services.metrics === undefined ? statsd : [...statsd, metricsSink()];
}

function admin(port: number): JsonObject {
  return { address: address('127.0.0.1', port) };
}

function layeredRuntime(): JsonObject {
  return {
    layers: [
      {
        name: 'static',
        static_layer: { 're2.max_program_size.error_level': REGEX_PROGRAM_SIZE },
      },
      // Last, so that values set through the admin interface have precedence.
      { name: 'admin', admin_layer: {} },
    ],
  };
}

/** Envoy warns when this limit is missing; the sidecar does not limit a workload's connections. */
function overloadManager(): JsonObject {
  const type =
    'type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig';
  return {
    resource_monitors: [
      {
        name: 'envoy.resource_monitors.global_downstream_max_connections',
        typed_config: { '@type': type, max_active_downstream_connections: '2147483647' },
      },
    ],
  };
}

/** The name servers of resolv.conf; the one here, which the message requires, is only used if there are none. */
function dnsResolver(): JsonObject {
  return {
    name: 'envoy.network.dns_resolver.cares',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig',
      resolvers: [address('127.0.0.1', 53)],
      use_resolvers_as_fallback: true,
      query_timeout_seconds: DNS_TIMEOUT,
      query_tries: DNS_ATTEMPTS,
    },
  };
}

function dynamicResources({ delta, initialFetchTimeoutMs }: BootstrapInput): JsonObject {
  const fromAds = { ads: {}, resource_api_version: 'V3', initial_fetch_timeout: seconds(initialFetchTimeoutMs) };
  return {
    ads_config: {
      api_type: delta ? 'DELTA_GRPC' : 'GRPC',
      transport_api_version: 'V3',
      set_node_on_first_message_only: true,
      grpc_services: [
        {
          envoy_grpc: {
            cluster_name: XDS_CLUSTER,
            retry_policy: { retry_back_off: { base_interval: RECONNECT_BASE, max_interval: RECONNECT_MAX } },
          },
        },
      ],
    },
    cds_config: fromAds,
    lds_config: fromAds,
  };
}

function staticClusters(input: BootstrapInput): JsonValue[] {
  const clusters: JsonValue[] = [input.xdsLocal === undefined ? xdsCluster(input) : xdsProxyCluster(input.xdsLocal)];
  if (input.policy.inBootstrap) clusters.push(policyCluster(input));
  if (input.sdsPath !== undefined) clusters.push(sdsCluster(input.sdsPath));
  if (input.prometheusPort !== 0) {
    const local = endpoint(address('127.0.0.1', input.adminPort));
    clusters.push({ name: PROMETHEUS_CLUSTER, type: 'STATIC', ...members(PROMETHEUS_CLUSTER, local) });
  }
  return [...clusters, ...serviceClusters(input.services)];
}

function xdsCluster(input: BootstrapInput): JsonObject {
  const { controlPlane } = input;
  const name = { san_type: 'DNS', matcher: { exact: controlPlane.serverName } };
  return controlPlaneCluster(XDS_CLUSTER, input, name);
}

/** The control plane once more, verified as the policy component. */
function policyCluster(input: BootstrapInput): JsonObject {
  return controlPlaneCluster(POLICY_CLUSTER, input, { san_type: 'URI', matcher: { exact: input.policy.san } });
}

/** @param san the name that the certificate of the control plane must have */
function controlPlaneCluster(cluster: string, input: BootstrapInput, san: JsonObject): JsonObject {
  const { controlPlane, controlPlaneRoots } = input;
  const { host, port, tls } = controlPlane;
  return {
    name: cluster,
    type: isIP(host) === 0 ? 'STRICT_DNS' : 'STATIC',
    ...(isIP(host) === 0 ? { dns_lookup_family: 'ALL', respect_dns_ttl: true } : {}),
    connect_timeout: XDS_CONNECT_TIMEOUT,
    ...members(cluster, endpoint(address(host, port))),
    upstream_connection_options: { tcp_keepalive: { keepalive_time: 300 } },
    ...http2(
      { connection_keepalive: { interval: KEEPALIVE_INTERVAL, timeout: KEEPALIVE_TIMEOUT } },
      { max_connection_duration: CONNECTION_AGE },
    ),
    ...(tls ? { transport_socket: controlPlaneTls(controlPlane, san, controlPlaneRoots) } : {}),
  };
}

/** The connection stays on the machine, and needs no certificate. */
function xdsProxyCluster(local: LocalAddress): JsonObject {
  const where = 'path' in local ? { pipe: { path: local.path } } : address(local.host, local.port);
  return {
    name: XDS_CLUSTER,
    type: 'path' in local || isIP(local.host) !== 0 ? 'STATIC' : 'STRICT_DNS',
    connect_timeout: '1s',
    ...members(XDS_CLUSTER, endpoint(where)),
    ...http2({ connection_keepalive: { interval: KEEPALIVE_INTERVAL, timeout: KEEPALIVE_TIMEOUT } }),
  };
}

function controlPlaneTls({ serverName }: ControlPlane, san: JsonObject, rootsSecret = ROOTS_SECRET): JsonObject {
  return {
    name: 'envoy.transport_sockets.tls',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
      sni: serverName,
      common_tls_context: {
        alpn_protocols: ['h2'],
        tls_params: { tls_minimum_protocol_version: 'TLSv1_2' },
        tls_certificate_sds_secret_configs: [secret(CERTIFICATE_SECRET)],
        combined_validation_context: {
          default_validation_context: {
            match_typed_subject_alt_names: [san],
          },
          validation_context_sds_secret_config: secret(rootsSecret),
        },
      },
    },
  };
}

function sdsCluster(path: string): JsonObject {
  return {
    name: SDS_CLUSTER,
    type: 'STATIC',
    connect_timeout: '1s',
    ...members(SDS_CLUSTER, endpoint({ pipe: { path } })),
    ...http2({}),
  };
}

/** A listener for Envoy's metrics alone, without merging; the admin interface itself stays on loopback. */
function prometheusListener(port: number, ipv6: boolean): JsonObject {
  const path = '/stats/prometheus';
  const route = { match: { path }, route: { cluster: PROMETHEUS_CLUSTER } };
  const manager = {
    '@type': 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
    stat_prefix: 'stats',
    route_config: { virtual_hosts: [{ name: 'stats', domains: ['*'], routes: [route] }] },
    http_filters: [
      {
        name: 'envoy.filters.http.router',
        typed_config: { '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router' },
      },
    ],
  };
  return {
    name: 'prometheus',
    address: address(ipv6 ? '::' : '0.0.0.0', port, ipv6),
    filter_chains: [{ filters: [{ name: 'envoy.filters.network.http_connection_manager', typed_config: manager }] }],
  };
}

function seconds(ms: number): string {
  return `${ms / 1000}s`;
}
