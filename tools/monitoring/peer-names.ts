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

/** Metrics that Istio does not have. */
const OWN: ReadonlySet<string> = new Set([
  'ctl_eds_instances',
  'ctl_grpc_connections_ended_early',
  'ctl_missing_credentials',
  'ctl_name_conflicts',
  'ctl_orch_endpoints_with_no_pods',
  'ctl_otlp_items_total',
  'ctl_policy_problems',
  'ctl_push_canary_seconds',
  'ctl_push_queue_length',
  'ctl_push_withheld',
  'ctl_refused_inbound_ports',
  'ctl_refused_security_documents',
  'ctl_remote_cluster_delayed_changes_total',
  'ctl_source_stale_seconds',
  'ctl_stage_seconds',
  'ctl_telemetry_problems',
  'ctl_unsupported_by_grpc',
  'ctl_views_failing',
  'ctl_xds_push_errors_total',
]);

/** The name in Istio; undefined for a metric that only meshd has. */
function peerName(name: string): string | undefined {
  if (OWN.has(name)) return undefined;
  const [ours, theirs] = PREFIXES.find(([prefix]) => name.startsWith(prefix)) ?? [];
  if (ours === undefined || theirs === undefined) return undefined;
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
  ...Object.entries<MetricSpec>(METRICS).flatMap(([name, { type }]) => {
    const record = peerName(name);
    if (record === undefined) return [];
    const endings = type === 'Distribution' ? HISTOGRAM : [''];
    return endings.map((ending) => renamed(`${record}${ending}`, `${name}${ending}`));
  }),
  // The time to build a snapshot.
  ...HISTOGRAM.map((ending) =>
    renamed(`pilot_pushcontext_init_seconds${ending}`, `ctl_stage_seconds${ending}{stage="snapshot"}`),
  ),
  // The time to write responses to proxies.
  ...HISTOGRAM.map((ending) => renamed(`pilot_xds_send_time${ending}`, `ctl_stage_seconds${ending}{stage="write"}`)),
];
