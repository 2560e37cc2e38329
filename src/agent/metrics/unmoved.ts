/**
 * What the specification lists for both programs and only the discovery program does: pushes, the service registry, webhooks. The agent
 * exports these names, too, and they stay at 0 (specification: ctl-agent "Metrics exported by the agent").
 */

interface UnmovedMetric {
  /** As in the specification: Count and Sum only grow, LastValue is what it is now, Distribution is a histogram. */
  readonly type: 'Count' | 'Sum' | 'LastValue' | 'Distribution';
  readonly meaning: string;
}

const UNMOVED_METRICS: Readonly<Record<string, UnmovedMetric>> = {
  endpoint_no_pod: { type: 'LastValue', meaning: 'Endpoints without an associated pod.' },
  cfg_validation_config_delete_error: { type: 'Count', meaning: 'Webhook configuration delete errors.' },
  cfg_validation_config_load: { type: 'Count', meaning: 'Webhook configuration (re)loads.' },
  cfg_validation_config_load_error: { type: 'Count', meaning: 'Webhook configuration (re)load errors.' },
  cfg_validation_config_update_error: { type: 'Count', meaning: 'Webhook configuration update errors.' },
  cfg_validation_config_updates: { type: 'Count', meaning: 'Webhook configuration updates.' },
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
  ctl_destrule_subsets: { type: 'LastValue', meaning: 'Duplicate subsets across destination rules for the same host.' },
  ctl_duplicate_proxy_clusters: {
    type: 'LastValue',
    meaning: 'Duplicate proxy clusters caused by service entries with the same hostname.',
  },
  ctl_eds_no_instances: { type: 'LastValue', meaning: 'Clusters without instances.' },
  ctl_endpoint_not_ready: { type: 'LastValue', meaning: 'Endpoints found unready.' },
  ctl_inbound_updates: { type: 'Sum', meaning: 'Updates received.' },
  ctl_invalid_out_listeners: { type: 'LastValue', meaning: 'Invalid outbound listeners.' },
  ctl_jwks_resolver_network_fetch_fail_total: { type: 'Sum', meaning: 'Failed network fetches by the JWKS resolver.' },
  ctl_jwks_resolver_network_fetch_success_total: {
    type: 'Sum',
    meaning: 'Successful network fetches by the JWKS resolver.',
  },
  ctl_orch_endpoints_pending_pod: { type: 'LastValue', meaning: 'Endpoints currently without a pod.' },
  ctl_orch_endpoints_with_no_pods: { type: 'Sum', meaning: 'Endpoints without any pod.' },
  ctl_orch_reg_events: { type: 'Sum', meaning: 'Events from the orchestrator registry.' },
  ctl_no_ip: { type: 'LastValue', meaning: 'Pods not found in the endpoint table, possibly invalid.' },
  ctl_proxy_convergence_time: {
    type: 'Distribution',
    meaning: 'Seconds between a config change and a proxy receiving all required config.',
  },
  ctl_proxy_queue_time: { type: 'Distribution', meaning: 'Seconds a proxy waits in the push queue.' },
  ctl_push_triggers: { type: 'Sum', meaning: 'Times a push was triggered, labelled by reason.' },
  ctl_services: { type: 'LastValue', meaning: 'Services known.' },
  ctl_total_rejected_configs: { type: 'Sum', meaning: 'Configs rejected or ignored.' },
  ctl_total_xds_internal_errors: { type: 'Sum', meaning: 'Internal XDS errors.' },
  ctl_total_xds_rejects: { type: 'Sum', meaning: 'XDS responses rejected by the proxy.' },
  ctl_virt_services: { type: 'LastValue', meaning: 'Virtual services known.' },
  ctl_vservice_dup_domain: { type: 'LastValue', meaning: 'Virtual services with duplicate domains.' },
  ctl_xds: { type: 'LastValue', meaning: 'Endpoints connected using XDS.' },
  ctl_xds_cds_reject: { type: 'LastValue', meaning: 'Rejected CDS configs.' },
  ctl_xds_eds_reject: { type: 'LastValue', meaning: 'Rejected EDS.' },
  ctl_xds_expired_nonce: { type: 'Sum', meaning: 'XDS requests with an expired nonce.' },
  ctl_xds_lds_reject: { type: 'LastValue', meaning: 'Rejected LDS.' },
  ctl_xds_push_context_errors: { type: 'Sum', meaning: 'Errors (timeouts) initiating push context.' },
  ctl_xds_push_time: { type: 'Distribution', meaning: 'Seconds taken to push lds, rds, cds and eds.' },
  ctl_xds_pushes: { type: 'Sum', meaning: 'Build and send errors for lds, rds, cds and eds.' },
  ctl_xds_rds_reject: { type: 'LastValue', meaning: 'Rejected RDS.' },
  ctl_xds_write_timeout: { type: 'Sum', meaning: 'XDS response write timeouts.' },
  sidecar_injection_failure_total: { type: 'Sum', meaning: 'Failed sidecar injection requests.' },
  sidecar_injection_requests_total: { type: 'Sum', meaning: 'Sidecar injection requests.' },
  sidecar_injection_skip_total: { type: 'Sum', meaning: 'Skipped sidecar injection requests.' },
  sidecar_injection_success_total: { type: 'Sum', meaning: 'Successful sidecar injection requests.' },
};

const TYPES = { Count: 'counter', Sum: 'counter', LastValue: 'gauge', Distribution: 'histogram' } as const;

/** All of them at 0, in Prometheus' text format: the same each time. */
export const UNMOVED_TEXT = Object.entries(UNMOVED_METRICS)
  .map(([name, { type, meaning }]) => {
    const samples =
      type === 'Distribution' ? [`${name}_bucket{le="+Inf"} 0`, `${name}_sum 0`, `${name}_count 0`] : [`${name} 0`];
    return [`# HELP ${name} ${meaning}`, `# TYPE ${name} ${TYPES[type]}`, ...samples, ''].join('\n');
  })
  .join('');
