/** For each alert, series for which it fires after some time, and for which it does not: for promtool. */

/** Series in the notation of promtool: `1+2x30` is 1, and 30 times 2 more. */
type Series = Readonly<Record<string, string>>;

export interface AlertCase {
  readonly fires: Series;
  /** Labels of the alert besides `severity`. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly quiet: Series;
  /** When it is looked at; one value of a series a minute. Default: 60m. */
  readonly at?: string;
}

const DISCOVERY = 'component="ctl-discovery",job="mesh",instance="a"';

const rejections = (lds: string): Series => ({
  'ctl_xds_cds_reject{instance="a"}': '0x60',
  'ctl_xds_eds_reject{instance="a"}': '0x60',
  'ctl_xds_lds_reject{instance="a"}': lds,
  'ctl_xds_rds_reject{instance="a"}': '0x60',
});

const internal = (errors: string): Series => ({
  ctl_total_xds_internal_errors: errors,
  ctl_xds_push_context_errors: '0x60',
});

const lag = (seconds: string): Series => ({
  [`mesh_build{${DISCOVERY}}`]: '1x60',
  'nodejs_eventloop_lag_p99_seconds{job="mesh",instance="a"}': seconds,
});

/** Of 60 changes a minute, all take between the bounds. */
const convergence = (within5: string): Series => ({
  'ctl_proxy_convergence_time_bucket{le="5"}': within5,
  'ctl_proxy_convergence_time_bucket{le="20"}': '0+60x60',
  'ctl_proxy_convergence_time_bucket{le="+Inf"}': '0+60x60',
});

const answers = (within1: string): Series => ({
  'ctl_xds_on_demand_answer_seconds_bucket{le="1"}': within1,
  'ctl_xds_on_demand_answer_seconds_bucket{le="3"}': '0+60x60',
  'ctl_xds_on_demand_answer_seconds_bucket{le="+Inf"}': '0+60x60',
});

export const ALERT_CASES: Readonly<Record<string, AlertCase>> = {
  MeshControlPlaneAbsent: {
    fires: { 'mesh_build{component="ctl-agent"}': '1x60' },
    labels: { component: 'ctl-discovery' },
    quiet: { [`mesh_build{${DISCOVERY}}`]: '1x60' },
  },
  MeshSourceStale: {
    fires: { 'ctl_source_stale_seconds{source="kubernetes"}': '0+60x60' },
    labels: { source: 'kubernetes' },
    quiet: { 'ctl_source_stale_seconds{source="kubernetes"}': '0x60' },
  },
  MeshGenerationFails: { fires: { ctl_views_failing: '2x60' }, quiet: { ctl_views_failing: '0x60' } },
  MeshProxiesReject: { fires: rejections('1x60'), quiet: rejections('1x55 0x5') },
  MeshResourcesWithheld: {
    fires: { 'ctl_push_withheld{type="cds"}': '1x60' },
    labels: { type: 'cds' },
    quiet: { 'ctl_push_withheld{type="cds"}': '1x30 stale' },
  },
  MeshOnDemandSlow: { fires: answers('0x60'), quiet: answers('0+60x60') },
  MeshOnDemandOverLimit: {
    fires: { ctl_xds_on_demand_over_limit: '1x60' },
    quiet: { ctl_xds_on_demand_over_limit: '0x60' },
  },
  MeshConvergenceSlow: { fires: convergence('0x60'), quiet: convergence('0+60x60') },
  MeshProxiesDoNotRead: { fires: { ctl_xds_write_timeout: '0+1x60' }, quiet: { ctl_xds_write_timeout: '7x60' } },
  MeshInternalErrors: { fires: internal('0+1x60'), quiet: internal('4x60') },
  MeshEventLoopSlow: {
    fires: lag('0.7x60'),
    labels: { job: 'mesh', instance: 'a' },
    // Another program that Node.js runs.
    quiet: { ...lag('0.1x60'), 'nodejs_eventloop_lag_p99_seconds{job="shop",instance="b"}': '5x60' },
  },
  MeshDocumentsRefused: {
    fires: { 'ctl_orch_object_errors{type="VirtualService"}': '1x60' },
    labels: { type: 'VirtualService' },
    quiet: { 'ctl_orch_object_errors{type="VirtualService"}': '1x30 stale' },
  },
  MeshPoliciesRefused: {
    fires: { 'ctl_refused_security_documents{in_force="substitute"}': '1x60' },
    labels: { in_force: 'substitute' },
    quiet: { 'ctl_refused_security_documents{in_force="substitute"}': '0x60' },
  },
  MeshRootCertificateExpires: {
    fires: { ca_server_root_cert_expiry_timestamp: '2000000x90' },
    quiet: { ca_server_root_cert_expiry_timestamp: '9000000x90' },
    at: '90m',
  },
  MeshSigningFails: {
    fires: { ca_server_csr_sign_err_count: '0+1x60' },
    quiet: { ca_server_csr_sign_err_count: '3x60' },
  },
  MeshInjectionFails: {
    fires: { sidecar_injection_failure_total: '0+1x60' },
    quiet: { sidecar_injection_failure_total: '3x60' },
  },
  MeshTelemetryExportFails: {
    fires: { 'ctl_otlp_items_total{signal="traces",result="dropped"}': '0+3x60' },
    labels: { signal: 'traces' },
    quiet: { 'ctl_otlp_items_total{signal="traces",result="sent"}': '0+3x60' },
  },
  MeshAgentsDisconnected: {
    fires: { 'xds_upstream_connected{instance="a"}': '0x60', 'xds_upstream_connected{instance="b"}': '1x60' },
    quiet: { 'xds_upstream_connected{instance="a"}': '1x60', 'xds_upstream_connected{instance="b"}': '1x60' },
  },
  MeshWorkloadCertificateExpires: {
    fires: { 'cert_expiry_seconds{job="proxies",instance="a",resource_name="default"}': '3600-60x60' },
    labels: { job: 'proxies', instance: 'a' },
    quiet: { 'cert_expiry_seconds{job="proxies",instance="a",resource_name="default"}': '86400-60x60' },
  },
  MeshEnvoyRestarts: {
    fires: { 'envoy_starts_total{instance="a"}': '1+1x60' },
    labels: { instance: 'a' },
    quiet: { 'envoy_starts_total{instance="a"}': '1x60' },
  },
};
