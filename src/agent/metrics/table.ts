/**
 * The metrics of ctl-agent: name, type, meaning and labels. The table has only metrics that the agent changes; the
 * others are in `unmoved.ts`.
 */

interface AgentMetricSpec {
  /** Sum: a counter; LastValue: a gauge. */
  readonly type: 'Sum' | 'LastValue';
  readonly meaning: string;
  readonly labels?: readonly string[];
}

export const AGENT_METRICS = {
  mesh_build: {
    type: 'LastValue',
    meaning: 'Component build info.',
    labels: ['component', 'version', 'revision', 'tag'],
  },
  scrapes_total: { type: 'Sum', meaning: 'Scrapes.' },
  scrape_failures_total: { type: 'Sum', meaning: 'Failed scrapes.', labels: ['type'] },
  // Of certificates, the SDS server and calls to the authority; counted in `identity/`. Requests also in
  // `credentials/`.
  num_outgoing_requests: {
    type: 'Sum',
    meaning: 'Total outgoing requests.',
    labels: ['request_type'],
  },
  num_failed_outgoing_requests: {
    type: 'Sum',
    meaning: 'Failed outgoing requests (to a token exchange server, CA and the like).',
    labels: ['request_type'],
  },
  num_outgoing_retries: { type: 'Sum', meaning: 'Outgoing retry requests.', labels: ['request_type'] },
  outgoing_latency: {
    type: 'Sum',
    meaning: 'Latency of outgoing requests, milliseconds.',
    labels: ['request_type'],
  },
  // A Sum, as in Istio's agent, although it also falls: its value is the number of current connections.
  total_active_connections: { type: 'Sum', meaning: 'Active SDS connections.' },
  total_pushes: { type: 'Sum', meaning: 'SDS pushes.' },
  total_push_errors: { type: 'Sum', meaning: 'Failed SDS pushes.' },
  total_secret_update_failures: {
    type: 'Sum',
    meaning: 'Dynamic secret update failures reported by the proxy.',
  },
  total_stale_connections: { type: 'Sum', meaning: 'Stale SDS connections.' },
  cert_expiry_seconds: {
    type: 'LastValue',
    meaning: 'Seconds until a secret expires; negative when it has.',
    labels: ['resource_name'],
  },
  // Of the DNS server; counted in `dns/`.
  dns_requests_total: { type: 'Sum', meaning: 'DNS queries received.', labels: ['protocol'] },
  dns_responses_total: { type: 'Sum', meaning: 'DNS responses sent, by response code.', labels: ['code'] },
  dns_upstream_requests_total: { type: 'Sum', meaning: 'DNS queries sent to other servers.' },
  dns_upstream_failures_total: { type: 'Sum', meaning: 'DNS queries that another server did not answer.' },
  dns_upstream_latency: {
    type: 'Sum',
    meaning: 'Milliseconds that DNS queries have waited for other servers.',
  },
  dns_names: { type: 'LastValue', meaning: 'Names of the mesh that the DNS server knows.' },
  // Of the xDS proxy and the agent's own stream; counted in `xds-proxy/`.
  xds_proxy_connections: { type: 'LastValue', meaning: 'Streams of proxies to the XDS proxy.' },
  xds_proxy_requests_total: { type: 'Sum', meaning: 'XDS requests of proxies.' },
  xds_proxy_responses_total: { type: 'Sum', meaning: 'XDS responses that the control plane has sent to proxies.' },
  xds_proxy_rejections_total: { type: 'Sum', meaning: 'XDS responses that a proxy has rejected.' },
  xds_proxy_snapshot_responses_total: { type: 'Sum', meaning: 'XDS responses from the snapshot.' },
  xds_proxy_unavailable_hosts_total: {
    type: 'Sum',
    meaning: 'Hosts that Envoy has asked for and that get HTTP 503, because the control plane did not answer in time.',
  },
  xds_proxy_snapshot_age_seconds: {
    type: 'LastValue',
    meaning: 'Seconds since the control plane confirmed the snapshot; 0 while it is connected.',
  },
  xds_proxy_snapshot_write_failures_total: { type: 'Sum', meaning: 'Failed writes of the snapshot (XDS_SAVE).' },
  xds_upstream_connected: { type: 'LastValue', meaning: 'Whether the agent is connected to the control plane.' },
  xds_upstream_failures_total: { type: 'Sum', meaning: 'Failed connections to the control plane.' },
  envoy_starts_total: { type: 'Sum', meaning: 'Starts of Envoy, the first one included.' },
} as const satisfies Readonly<Record<string, AgentMetricSpec>>;

export type AgentMetricName = keyof typeof AGENT_METRICS;

export function isAgentMetric(name: string): name is AgentMetricName {
  return Object.hasOwn(AGENT_METRICS, name);
}
