/**
 * The metrics of ctl-discovery: name, type, meaning and labels. Instruments, their TypeScript types, tests and
 * reference documents are derived from this table. A metric has an entry only when the program measures it. Labels have
 * few values: with a label per proxy the scrape would grow with the mesh. The debug interface shows single proxies and
 * resources.
 */

import { SIDECAR_CONFIGURATIONS } from '../core/proxy.ts';
import { XDS_TYPES } from '../core/xds-types.ts';

import type { MetricSpec } from './metric-spec.ts';
import { POLICY_METRICS } from './policy-metrics-table.ts';

export type { MetricSpec, MetricType } from './metric-spec.ts';

/** From an endpoint change without debounce, through the debounce (0.1 to 10 s), to an overloaded mesh. */
const PUSH_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 3, 5, 10, 20, 30];
/** Work inside the process: from tens of microseconds to the seconds for a whole mesh. */
const WORK_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const SPAN_MILLISECONDS = [1, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 10_000, 60_000, 600_000];
/** From a small change to the responses of a large mesh. */
const RESPONSE_BYTES = [1000, 10_000, 100_000, 1_000_000, 4_000_000, 10_000_000, 40_000_000];
/** From an acknowledgement to a first request with the versions of all documents. */
const MESSAGE_BYTES = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304];
const EVENT_COUNTS = [1, 2, 5, 10, 25, 50, 100, 250, 1000, 5000, 25_000];

export const METRICS = {
  // The push engine.
  ctl_proxy_convergence_time: {
    type: 'Distribution',
    meaning: 'Seconds between a config change and a proxy receiving all required config.',
    buckets: PUSH_SECONDS,
  },
  ctl_proxy_queue_time: {
    type: 'Distribution',
    meaning: 'Seconds a proxy waits in the push queue.',
    buckets: WORK_SECONDS,
  },
  ctl_xds_push_time: {
    type: 'Distribution',
    meaning: 'Seconds taken to push lds, rds, cds and eds.',
    labels: ['type'],
    buckets: WORK_SECONDS,
  },
  ctl_stage_seconds: {
    type: 'Distribution',
    meaning: 'Seconds spent per stage of a push: snapshot, views, generate, intern, write.',
    labels: ['stage'],
    buckets: WORK_SECONDS,
  },
  ctl_views_failing: {
    type: 'LastValue',
    meaning: 'Views (parts of the configuration of proxies) that cannot be generated now; see /debug/push_status.',
  },
  ctl_push_canary_seconds: {
    type: 'Distribution',
    meaning:
      'Seconds that changed resources were tried by a few proxies of a view before the others, by result: accepted, ' +
      'refused (some are withheld), released (not answered in time).',
    labels: ['result'],
    buckets: PUSH_SECONDS,
  },
  ctl_push_withheld: {
    type: 'LastValue',
    meaning: 'Resources of views that are withheld because Envoy rejected them; see /debug/withheldz.',
    labels: ['type'],
  },
  ctl_push_triggers: { type: 'Sum', meaning: 'Times a push was triggered, labelled by reason.', labels: ['type'] },
  ctl_xds_pushes: { type: 'Sum', meaning: 'Build and send errors for lds, rds, cds and eds.', labels: ['type'] },
  ctl_xds_config_size_bytes: {
    type: 'Distribution',
    meaning: 'Bytes of the responses sent to proxies, each with all resources that it has, before compression.',
    labels: ['type'],
    buckets: RESPONSE_BYTES,
  },
  ctl_xds_compression_input_bytes_total: {
    type: 'Count',
    meaning: 'Bytes of the compressed responses to proxies before compression; see CTL_XDS_COMPRESSION.',
  },
  ctl_xds_compression_output_bytes_total: {
    type: 'Count',
    meaning: 'Bytes of the compressed responses to proxies as they were sent.',
  },
  ctl_xds_on_demand_names_total: {
    type: 'Count',
    meaning: 'Virtual hosts and clusters that proxies asked for: each name counts once for each connection of a proxy.',
  },
  ctl_xds_on_demand_unknown_names_total: {
    type: 'Count',
    meaning: 'Names that proxies asked for whose host the mesh did not know, once for each connection of a proxy.',
  },
  ctl_xds_on_demand_learned_hosts_total: {
    type: 'Count',
    meaning:
      'Virtual hosts and clusters that proxies got before they asked, because others had asked for them: once for ' +
      'each connection of a proxy. Whether a proxy uses them is not known.',
  },
  ctl_xds_on_demand_learned_misses_total: {
    type: 'Count',
    meaning: 'Names of known hosts that proxies asked for although they get what others have asked for.',
  },
  ctl_xds_on_demand_answer_seconds: {
    type: 'Distribution',
    meaning:
      'Seconds from a request of a proxy for a name until the answer was written, after clusters and endpoints. What ' +
      'a proxy lists when it connects again does not count.',
    buckets: PUSH_SECONDS,
  },
  ctl_xds_on_demand_proxies: {
    type: 'LastValue',
    meaning: 'Connected proxies by what they get of the mesh: all, on-demand, learned.',
    labels: ['configuration'],
    values: { configuration: SIDECAR_CONFIGURATIONS },
  },
  ctl_xds_on_demand_over_limit: {
    type: 'LastValue',
    meaning:
      'Connected proxies that get everything because they asked for more than 1,024 names, or for too large ones.',
  },
  ctl_xds_on_demand_hosts: { type: 'LastValue', meaning: 'Virtual hosts that connected proxies on demand hold.' },
  ctl_xds_push_errors_total: {
    type: 'Count',
    meaning:
      'Responses that proxies did not get, by reason: build (they could not be generated), send (the stream has ' +
      'ended), timeout (the proxy does not read).',
    labels: ['type', 'reason'],
    values: { type: XDS_TYPES, reason: ['build', 'send', 'timeout'] },
  },
  ctl_push_queue_length: { type: 'LastValue', meaning: 'Proxies that wait in the push queue.' },
  ctl_xds: { type: 'LastValue', meaning: 'Endpoints connected using XDS.' },
  ctl_inbound_updates: { type: 'Sum', meaning: 'Updates received.', labels: ['type'] },
  ctl_xds_write_timeout: { type: 'Sum', meaning: 'XDS response write timeouts.' },
  ctl_total_xds_rejects: {
    type: 'Sum',
    meaning: 'XDS responses rejected by the proxy.',
    labels: ['type'],
    values: { type: XDS_TYPES },
  },
  ctl_xds_cds_reject: { type: 'LastValue', meaning: 'Rejected CDS configs.' },
  ctl_xds_eds_reject: { type: 'LastValue', meaning: 'Rejected EDS.' },
  ctl_xds_lds_reject: { type: 'LastValue', meaning: 'Rejected LDS.' },
  ctl_xds_rds_reject: { type: 'LastValue', meaning: 'Rejected RDS.' },
  ctl_grpc_connections_ended_early: {
    type: 'Sum',
    meaning:
      'Connections to the gRPC addresses that ended before HTTP/2 began, by reason: limit (too many), timeout, ' +
      'handshake (failed), refused (after the handshake), client (it closed the connection during the handshake), ' +
      'no_preface (the connection was closed after the handshake).',
    labels: ['reason'],
  },
  ctl_xds_expired_nonce: { type: 'Sum', meaning: 'XDS requests with an expired nonce.' },
  ctl_total_xds_internal_errors: { type: 'Sum', meaning: 'Internal XDS errors.' },
  ctl_xds_push_context_errors: { type: 'Sum', meaning: 'Errors (timeouts) initiating push context.' },

  // Problems that generation finds in the mesh.
  ctl_conflict_inbound_listener: { type: 'LastValue', meaning: 'Conflicting inbound listeners.' },
  ctl_conflict_outbound_listener_http_over_current_tcp: {
    type: 'LastValue',
    meaning: 'Wildcard http listeners conflicting with the current wildcard tcp listener.',
  },
  ctl_conflict_outbound_listener_tcp_over_current_http: {
    type: 'LastValue',
    meaning: 'Wildcard tcp listeners conflicting with the current wildcard http listener.',
  },
  ctl_conflict_outbound_listener_tcp_over_current_tcp: {
    type: 'LastValue',
    meaning: 'Tcp listeners conflicting with the current tcp listener.',
  },
  ctl_name_conflicts: {
    type: 'LastValue',
    meaning: 'Host names and addresses in documents that belong to another namespace.',
  },
  ctl_duplicate_proxy_clusters: {
    type: 'LastValue',
    meaning: 'Duplicate proxy clusters caused by service entries with the same hostname.',
  },
  ctl_vservice_dup_domain: { type: 'LastValue', meaning: 'Virtual services with duplicate domains.' },
  ctl_destrule_subsets: {
    type: 'LastValue',
    meaning: 'Duplicate subsets across destination rules for the same host.',
  },
  ctl_eds_no_instances: { type: 'LastValue', meaning: 'Clusters without instances.' },
  ctl_missing_credentials: {
    type: 'LastValue',
    meaning: 'Clusters without connections, because their client certificate is missing.',
  },
  ctl_policy_problems: {
    type: 'LastValue',
    meaning:
      'Policies that cannot be enforced as written for some workload; requests that they cannot decide are denied.',
  },
  ctl_telemetry_problems: {
    type: 'LastValue',
    meaning: 'Spans, access logs and metrics that some workload lacks, because their provider cannot be used.',
  },
  ctl_unsupported_by_grpc: {
    type: 'LastValue',
    meaning:
      'Clusters of gRPC applications without a proxy whose tunnel, PROXY protocol or retry budget has no effect.',
  },
  ctl_refused_inbound_ports: {
    type: 'LastValue',
    meaning: 'Workloads whose ports refuse all clients: they need mutual TLS, and the proxy cannot get certificates.',
  },
  ctl_invalid_out_listeners: { type: 'LastValue', meaning: 'Invalid outbound listeners.' },

  // The service model.
  ctl_services: { type: 'LastValue', meaning: 'Services known.' },
  ctl_virt_services: { type: 'LastValue', meaning: 'Virtual services known.' },
  ctl_total_rejected_configs: { type: 'Sum', meaning: 'Configs rejected or ignored.' },
  ctl_eds_instances: { type: 'LastValue', meaning: 'Endpoints of all services, one for each port.' },
  ctl_endpoint_not_ready: { type: 'LastValue', meaning: 'Endpoints found unready.' },
  ctl_no_ip: { type: 'LastValue', meaning: 'Pods not found in the endpoint table, possibly invalid.' },
  endpoint_no_pod: { type: 'LastValue', meaning: 'Endpoints without an associated pod.' },
  ctl_orch_endpoints_pending_pod: { type: 'LastValue', meaning: 'Endpoints currently without a pod.' },
  ctl_orch_endpoints_with_no_pods: { type: 'Sum', meaning: 'Endpoints without any pod.' },

  // Sources and their events. `type` is the resource kind, `event` one of add, update, delete.
  ctl_orch_reg_events: {
    type: 'Sum',
    meaning: 'Events from the orchestrator registry.',
    labels: ['type', 'event'],
  },
  ctl_orch_cfg_events: { type: 'Sum', meaning: 'Events from orchestrator config.', labels: ['type', 'event'] },
  ctl_total_orch_object_errors: { type: 'Sum', meaning: 'Total errors converting custom resources.' },
  ctl_orch_object_errors: { type: 'LastValue', meaning: 'Errors converting custom resources.', labels: ['type'] },
  cfg_source_orch_event_success_total: { type: 'Count', meaning: 'Events handled successfully by a source.' },
  ctl_source_stale_seconds: {
    type: 'LastValue',
    meaning: 'Seconds since a source could last be read in full; 0 while it can.',
    labels: ['source'],
  },
  mesh_mcp_clients_total: { type: 'LastValue', meaning: 'Streams currently connected.' },
  mesh_mcp_message_sizes_bytes: {
    type: 'Distribution',
    meaning: 'Size of messages received from clients.',
    buckets: MESSAGE_BYTES,
  },
  mesh_mcp_recv_failures_total: { type: 'Sum', meaning: 'Receive failures in the source.' },
  mesh_mcp_request_acks_total: { type: 'Sum', meaning: 'Request acks received by the source.' },
  mesh_mcp_request_nacks_total: { type: 'Sum', meaning: 'Request nacks received by the source.' },
  mesh_mcp_send_failures_total: { type: 'Sum', meaning: 'Send failures in the source.' },
  mesh_mcp_reconnections: { type: 'Sum', meaning: 'Times the sink reconnected.' },
  ctl_remote_cluster_delayed_changes_total: {
    type: 'Count',
    meaning: 'Changes of other clusters that waited for up to a second, because a cluster sent too many.',
  },
  cfg_source_orch_dynamic_converter_success_total: {
    type: 'Count',
    meaning: 'Successful resource conversions by a dynamic source.',
  },
  cfg_source_orch_dynamic_converter_failure_total: {
    type: 'Count',
    meaning: 'Failed resource conversions by a dynamic source.',
  },
  cfg_source_orch_event_error_total: { type: 'Count', meaning: 'Errors handling an event in a source.' },

  ctl_refused_security_documents: {
    type: 'LastValue',
    meaning:
      'Refused documents of the security kinds, by what is in force instead: last_good (the last good version), ' +
      'substitute (the strictest).',
    labels: ['in_force'],
  },

  // Debounce and snapshots.
  cfg_runtime_processor_event_span_duration_milliseconds: {
    type: 'Distribution',
    meaning: 'Duration between incoming events.',
    buckets: SPAN_MILLISECONDS,
  },
  cfg_runtime_processor_events_processed_total: { type: 'Count', meaning: 'Events processed.' },
  cfg_runtime_processor_snapshot_events_total: {
    type: 'Distribution',
    meaning: 'Events per snapshot.',
    buckets: EVENT_COUNTS,
  },
  cfg_runtime_processor_snapshot_lifetime_duration_milliseconds: {
    type: 'Distribution',
    meaning: 'Duration of each snapshot.',
    buckets: SPAN_MILLISECONDS,
  },
  cfg_runtime_processor_snapshots_published_total: { type: 'Count', meaning: 'Snapshots published.' },
  cfg_runtime_state_type_instances_total: {
    type: 'LastValue',
    meaning: 'Type instances per type URL.',
    labels: ['type'],
  },
  cfg_runtime_strategy_on_change_total: { type: 'Count', meaning: "Times the strategy's onChange was called." },
  cfg_runtime_strategy_timer_max_time_reached_total: {
    type: 'Count',
    meaning: 'Times the maximum time was reached.',
  },
  cfg_runtime_strategy_timer_quiesce_reached_total: { type: 'Count', meaning: 'Times a quiesce was reached.' },
  cfg_runtime_strategy_timer_resets_total: { type: 'Count', meaning: 'Times the timer was reset.' },

  // Webhooks. `group` and `resource` (the kind) are `other` for documents that are not of the mesh.
  sidecar_injection_requests_total: { type: 'Sum', meaning: 'Sidecar injection requests.' },
  sidecar_injection_success_total: { type: 'Sum', meaning: 'Successful sidecar injection requests.' },
  sidecar_injection_skip_total: { type: 'Sum', meaning: 'Skipped sidecar injection requests.' },
  sidecar_injection_failure_total: { type: 'Sum', meaning: 'Failed sidecar injection requests.' },
  cfg_validation_passed: { type: 'Sum', meaning: 'Resources found valid.', labels: ['group', 'resource'] },
  cfg_validation_failed: { type: 'Sum', meaning: 'Resource validation failures.', labels: ['group', 'resource'] },
  cfg_validation_http_error: { type: 'Sum', meaning: 'Validation HTTP serve errors.', labels: ['status'] },

  // Key sets of token issuers.
  ctl_jwks_resolver_network_fetch_success_total: {
    type: 'Sum',
    meaning: 'Successful network fetches by the JWKS resolver.',
  },
  ctl_jwks_resolver_network_fetch_fail_total: {
    type: 'Sum',
    meaning: 'Failed network fetches by the JWKS resolver.',
  },

  // Requests of this program to others: token issuers, bundle endpoints.
  num_outgoing_requests: { type: 'Sum', meaning: 'Total outgoing requests.' },
  num_failed_outgoing_requests: {
    type: 'Sum',
    meaning: 'Failed outgoing requests (to a token exchange server, CA and the like).',
  },
  num_outgoing_retries: { type: 'Sum', meaning: 'Outgoing retry requests.' },
  outgoing_latency: { type: 'Sum', meaning: 'Latency of outgoing requests, milliseconds.' },

  // The export by OpenTelemetry.
  ctl_otlp_items_total: {
    type: 'Count',
    meaning: 'Data points and spans for the OpenTelemetry receiver, by result: sent, or dropped.',
    labels: ['signal', 'result'],
    values: { signal: ['metrics', 'traces'], result: ['sent', 'dropped'] },
  },

  scrapes_total: { type: 'Sum', meaning: 'Scrapes.' },
  scrape_failures_total: { type: 'Sum', meaning: 'Failed scrapes.' },

  // The certificate authority.
  ca_server_authentication_failure_count: { type: 'Sum', meaning: 'Authentication failures.' },
  ca_server_csr_count: { type: 'Sum', meaning: 'Certificate signing requests received.' },
  ca_server_csr_parsing_err_count: { type: 'Sum', meaning: 'Errors parsing a request.' },
  ca_server_csr_sign_err_count: { type: 'Sum', meaning: 'Errors signing a request.' },
  ca_server_id_extraction_err_count: { type: 'Sum', meaning: 'Errors extracting the ID from a request.' },
  ca_server_success_cert_issuance_count: { type: 'Sum', meaning: 'Successful certificate issuances.' },
  ca_server_cert_chain_expiry_timestamp: {
    type: 'LastValue',
    meaning: 'Unix time in seconds when the CA cert chain expires; negative means expired.',
  },
  ca_server_root_cert_expiry_timestamp: {
    type: 'LastValue',
    meaning: 'Unix time in seconds when the root certificate expires; negative means expired.',
  },

  // The validating webhook configuration.
  cfg_validation_config_load: { type: 'Count', meaning: 'Webhook configuration (re)loads.' },
  cfg_validation_config_load_error: { type: 'Count', meaning: 'Webhook configuration (re)load errors.' },
  cfg_validation_config_updates: { type: 'Count', meaning: 'Webhook configuration updates.' },
  cfg_validation_config_update_error: { type: 'Count', meaning: 'Webhook configuration update errors.' },
  cfg_validation_config_delete_error: {
    type: 'Count',
    meaning: 'Webhook configurations that were deleted while the control plane kept them up to date.',
  },

  ...POLICY_METRICS,

  mesh_build: {
    type: 'LastValue',
    meaning: 'Component build info.',
    labels: ['component', 'version', 'revision', 'tag'],
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;

export type MetricName = keyof typeof METRICS;
