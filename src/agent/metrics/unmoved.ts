/**
 * Metrics that both programs export, as Istio's do, but that only the discovery program changes: pushes, the service
 * registry, webhooks. The agent exports them with the value 0.
 */
import { METRICS, type MetricSpec } from '../../observe/index.ts';
import { convertFamily, type Family } from './scrape/families.ts';
import type { Format } from './scrape/formats.ts';

/** Rows of the table of ctl-discovery. */
const OF_DISCOVERY = [
  'cfg_validation_config_delete_error',
  'cfg_validation_config_load',
  'cfg_validation_config_load_error',
  'cfg_validation_config_update_error',
  'cfg_validation_config_updates',
  'endpoint_no_pod',
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
  'ctl_orch_endpoints_pending_pod',
  'ctl_orch_endpoints_with_no_pods',
  'ctl_orch_reg_events',
  'ctl_no_ip',
  'ctl_proxy_convergence_time',
  'ctl_proxy_queue_time',
  'ctl_push_triggers',
  'ctl_services',
  'ctl_total_rejected_configs',
  'ctl_total_xds_internal_errors',
  'ctl_total_xds_rejects',
  'ctl_virt_services',
  'ctl_vservice_dup_domain',
  'ctl_xds',
  'ctl_xds_cds_reject',
  'ctl_xds_eds_reject',
  'ctl_xds_expired_nonce',
  'ctl_xds_lds_reject',
  'ctl_xds_push_context_errors',
  'ctl_xds_push_time',
  'ctl_xds_pushes',
  'ctl_xds_rds_reject',
  'ctl_xds_write_timeout',
] as const satisfies readonly (keyof typeof METRICS)[];

/** Metrics of webhooks, which that table does not have yet. */
const OF_WEBHOOKS: Readonly<Record<string, MetricSpec>> = {
  sidecar_injection_failure_total: { type: 'Sum', meaning: 'Failed sidecar injection requests.' },
  sidecar_injection_requests_total: { type: 'Sum', meaning: 'Sidecar injection requests.' },
  sidecar_injection_skip_total: { type: 'Sum', meaning: 'Skipped sidecar injection requests.' },
  sidecar_injection_success_total: { type: 'Sum', meaning: 'Successful sidecar injection requests.' },
};

const UNMOVED_METRICS: Readonly<Record<string, MetricSpec>> = {
  ...Object.fromEntries(OF_DISCOVERY.map((name) => [name, METRICS[name]])),
  ...OF_WEBHOOKS,
};

const TYPES = { Count: 'counter', Sum: 'counter', LastValue: 'gauge', Distribution: 'histogram' } as const;

const ALL = Object.entries(UNMOVED_METRICS).map(([name, { type, meaning }]) => ({ name, type: TYPES[type], meaning }));

export const UNMOVED_FAMILIES: readonly Family[] = ALL;

/** The metrics that are not in the set, with the value 0. */
export function unmovedText(format: Format, without: ReadonlySet<string>): string {
  return ALL.filter(({ name }) => !without.has(name))
    .map((each) => {
      const { name, type } = convertFamily(each, 'text', format);
      const series = each.type === 'histogram' ? ['_bucket{le="+Inf"}', '_sum', '_count'] : [''];
      const samples = series.map((ending) => `${each.name}${ending} 0\n`).join('');
      return `# HELP ${name} ${each.meaning}\n# TYPE ${name} ${type}\n${samples}`;
    })
    .join('');
}
