/**
 * Configures Envoy's statistics: which are kept, and which tags are extracted from their names. A sidecar in a mesh
 * with a thousand services has a hundred thousand of them, so only those that are used are kept: the same selection as
 * Istio's agents.
 */
import type { JsonObject, JsonValue } from '../../protobuf/index.ts';
import { CONNECTIONS_SUFFIX } from '../ending/connections.ts';

/** Statistics for readiness, and for problems of the connection to the control plane. */
const NEEDED = ['server.', 'cluster_manager.', 'listener_manager.', 'control_plane.', 'cluster.xds-grpc.'];
/** Statistics of the workload's own traffic, for meshes and gateways. */
const USEFUL = [
  'sds',
  'wasm',
  'reporter=',
  'istio_',
  'istiocustom.',
  'component.',
  'tcp_proxy.',
  'http.inbound_',
  'runtime.',
];
/** Statistics of AuthorizationPolicies, also those of gateways and connections: enforced ones, and dry runs. */
const POLICIES = ['rbac.allowed', 'rbac.denied', 'shadow_allowed', 'shadow_denied'];

/** Tag extraction rules for the generated names: cluster names contain dots, at which Envoy's own rules would stop. */
const TAGS: readonly (readonly [string, string])[] = [
  [
    'cluster_name',
    '^cluster\\.((outbound\\|.*?|inbound\\|.*?|[^.|]+)\\.)' +
      '(?:upstream_|membership_|lb_|circuit_|assignment_|bind_|max_|original_|retry|update_|version|warming|http|ssl|' +
      'tls|external|internal|default|outlier|init_)',
  ],
  ['http_conn_manager_prefix', '^http\\.(((?:inbound|outbound)_[0-9.:\\[\\]a-f_]+;?|[^.]+)\\.)'],
  ['listener_address', '^listener\\.(((?:[0-9a-f.]+|\\[[0-9a-f:_]+\\])_\\d+)\\.)'],
  ['response_code', '_rq(_(\\d{3}))$'],
  ['response_code_class', '_rq(_(\\dxx))$'],
  // Of AuthorizationPolicies in dry run, as Istio's agents name them.
  ['authz_dry_run_action', '(\\.istio_dry_run_(allow|deny|custom)_)'],
  ['authz_dry_run_result', 'istio_dry_run_[a-z]+_(\\.shadow_(allowed|denied))$'],
];

/**
 * Metrics of requests have a series for each combination of labels. One that has not changed for this time is removed:
 * callers of long ago, and what callers put into tags, do not stay for ever. Envoy requires a multiple of its
 * flush interval, which is 5 s unless an override changes it.
 */
export const STATS_EVICTION_INTERVAL = '3600s';

export interface StatsInput {
  /** Keeps only the statistics that the agent itself needs. */
  readonly minimalStats: boolean;
  /** Also keeps the numbers of connections: the agent drains until they are zero. */
  readonly countsConnections: boolean;
  /** Additional tags in the names of the mesh filters' metrics. */
  readonly extraStatTags: readonly string[];
}

/** `envoy.config.metrics.v3.StatsConfig`, JSON form. */
export function statsConfig({ minimalStats, countsConnections, extraStatTags }: StatsInput): JsonObject {
  const prefixes = minimalStats ? NEEDED : [...NEEDED, ...USEFUL];
  const suffixes = [...(minimalStats ? [] : POLICIES), ...(countsConnections ? [CONNECTIONS_SUFFIX] : [])];
  const patterns: JsonValue[] = [...prefixes.map((prefix) => ({ prefix })), ...suffixes.map((suffix) => ({ suffix }))];
  return {
    use_all_default_tags: false,
    stats_tags: minimalStats ? [] : statsTags(extraStatTags),
    stats_matcher: { inclusion_list: { patterns } },
  };
}

function statsTags(extra: readonly string[]): JsonValue[] {
  const rules = TAGS.map(([name, regex]) => ({ tag_name: name, regex }));
  const more = extra.map((name) => ({ tag_name: name, regex: `(${name}=\\.=(.*?);\\.;)` }));
  return [...rules, ...more];
}

/** A sink for `host:port`, which must be an IP address: Envoy does not resolve a name here. */
export function statsdSink(hostPort: string): JsonObject {
  const at = hostPort.lastIndexOf(':');
  const address = hostPort.slice(0, at).replace(/^\[|\]$/g, '');
  return {
    name: 'envoy.stat_sinks.statsd',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.config.metrics.v3.StatsdSink',
      address: { socket_address: { address, port_value: Number(hostPort.slice(at + 1)), protocol: 'UDP' } },
    },
  };
}
