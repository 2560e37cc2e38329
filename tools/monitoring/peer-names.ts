/**
 * Recording rules that give metrics of ctl-discovery the names of Istio's control plane, for Kiali and for boards that
 * exist (https://istio.io/latest/docs/reference/commands/pilot-discovery/#metrics).
 */
import { METRICS, type MetricSpec } from '../../src/observe/index.ts';
import { ofControlPlanes } from './boards/board.ts';
import type { RecordingRule } from './rules.ts';

/** Beginnings of names, the first that fits. */
const PREFIXES = [
  ['ctl_orch_', 'pilot_k8s_'],
  ['ctl_total_orch_', 'pilot_total_k8s_'],
  ['ctl_', 'pilot_'],
  ['ca_server_', 'citadel_server_'],
  ['cfg_validation_', 'galley_validation_'],
] as const;

/** Names that are otherwise. */
const OTHERS: Readonly<Record<string, string>> = {
  ctl_duplicate_proxy_clusters: 'pilot_duplicate_envoy_clusters',
};

/** Metrics that Istio has under the other name. */
const SHARED: readonly (keyof typeof METRICS)[] = [
  'ca_server_authentication_failure_count',
  'ca_server_cert_chain_expiry_timestamp',
  'ca_server_csr_count',
  'ca_server_csr_parsing_err_count',
  'ca_server_csr_sign_err_count',
  'ca_server_id_extraction_err_count',
  'ca_server_root_cert_expiry_timestamp',
  'ca_server_success_cert_issuance_count',
  'cfg_validation_config_delete_error',
  'cfg_validation_config_load',
  'cfg_validation_config_load_error',
  'cfg_validation_config_update_error',
  'cfg_validation_config_updates',
  'cfg_validation_failed',
  'cfg_validation_http_error',
  'cfg_validation_passed',
  'ctl_conflict_inbound_listener',
  'ctl_conflict_outbound_listener_http_over_current_tcp',
  'ctl_conflict_outbound_listener_tcp_over_current_http',
  'ctl_conflict_outbound_listener_tcp_over_current_tcp',
  'ctl_destrule_subsets',
  'ctl_duplicate_proxy_clusters',
  'ctl_eds_no_instances',
  'ctl_endpoint_not_ready',
  'ctl_inbound_updates',
  'ctl_invalid_out_listeners',
  'ctl_jwks_resolver_network_fetch_fail_total',
  'ctl_jwks_resolver_network_fetch_success_total',
  'ctl_no_ip',
  'ctl_orch_cfg_events',
  'ctl_orch_endpoints_pending_pod',
  'ctl_orch_object_errors',
  'ctl_orch_reg_events',
  'ctl_proxy_convergence_time',
  'ctl_proxy_queue_time',
  'ctl_push_triggers',
  'ctl_services',
  'ctl_total_orch_object_errors',
  'ctl_total_rejected_configs',
  'ctl_total_xds_internal_errors',
  'ctl_total_xds_rejects',
  'ctl_virt_services',
  'ctl_vservice_dup_domain',
  'ctl_xds',
  'ctl_xds_cds_reject',
  'ctl_xds_config_size_bytes',
  'ctl_xds_eds_reject',
  'ctl_xds_expired_nonce',
  'ctl_xds_lds_reject',
  'ctl_xds_push_context_errors',
  'ctl_xds_push_time',
  'ctl_xds_pushes',
  'ctl_xds_rds_reject',
  'ctl_xds_write_timeout',
];

function peerName(name: string): string {
  const [ours = '', theirs = ''] = PREFIXES.find(([prefix]) => name.startsWith(prefix)) ?? [];
  return OTHERS[name] ?? theirs + name.slice(ours.length);
}

/** The series of a histogram: each needs a rule. */
const HISTOGRAM = ['_bucket', '_sum', '_count'] as const;

const renamed = (record: string, expr: string): RecordingRule => ({ record, expr: ofControlPlanes(expr) });

export const PEER_NAMES: readonly RecordingRule[] = [
  {
    record: 'istio_build',
    expr: 'label_replace(mesh_build{component="ctl-discovery"}, "component", "pilot", "", "")',
  },
  ...SHARED.flatMap((name) => {
    const { type }: MetricSpec = METRICS[name];
    const endings = type === 'Distribution' ? HISTOGRAM : [''];
    return endings.map((ending) => renamed(`${peerName(name)}${ending}`, `${name}${ending}`));
  }),
  // The time to build a snapshot.
  ...HISTOGRAM.map((ending) =>
    renamed(`pilot_pushcontext_init_seconds${ending}`, `ctl_stage_seconds${ending}{stage="snapshot"}`),
  ),
  // The time to write responses to proxies.
  ...HISTOGRAM.map((ending) => renamed(`pilot_xds_send_time${ending}`, `ctl_stage_seconds${ending}{stage="write"}`)),
];
