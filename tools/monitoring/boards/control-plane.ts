/** The board of the control plane: is every proxy up to date, what is refused, what changes. */
import { type Board, chart, number, ofControlPlanes, type Query, quantile, rate, rateBy } from './board.ts';

/** A level of the replica that has most. Each replica reads the same documents. */
const level = (name: string, legend: string): Query => ({ expr: `max(${name})`, legend });
const DAY = 86_400;

export const CONTROL_PLANE: Board = {
  uid: 'mesh-control-plane',
  title: 'Mesh / Control plane',
  rows: [
    {
      title: 'Now',
      panels: [
        number('Replicas', 'short', 'Running replicas.', 'count(mesh_build{component="ctl-discovery"})'),
        number('Proxies', 'short', 'Connected proxies.', 'sum(ctl_xds)'),
        number(
          'Rejected',
          'short',
          'Resources that are kept from proxies, because Envoy rejects them.',
          'sum(ctl_xds_cds_reject + ctl_xds_eds_reject + ctl_xds_lds_reject + ctl_xds_rds_reject)',
          1,
        ),
        number('Withheld', 'short', 'Resources that canaries reject.', 'sum(ctl_push_withheld) or vector(0)', 1),
        number(
          'Refused',
          'short',
          'Documents with errors.',
          'max(sum by (instance) (ctl_orch_object_errors)) or vector(0)',
          1,
        ),
        number(
          'Root, days left',
          'd',
          'Days until the root certificate expires.',
          `min((ca_server_root_cert_expiry_timestamp != 0) - time()) / ${DAY}`,
        ),
      ],
    },
    {
      title: 'Pushes',
      panels: [
        chart(
          'Convergence',
          's',
          'From the first event of a change until a proxy has acknowledged all of it.',
          quantile(0.5, 'ctl_proxy_convergence_time'),
          quantile(0.9, 'ctl_proxy_convergence_time'),
          quantile(0.99, 'ctl_proxy_convergence_time'),
        ),
        chart('Responses', 'ops', 'Responses sent to proxies.', rateBy('type', 'ctl_xds_pushes{type!~".+err"}')),
        chart('Why', 'ops', 'What triggers pushes.', rateBy('type', 'ctl_push_triggers')),
        chart(
          'Proxies by replica',
          'short',
          'Connected proxies. After a restart they spread within the age of connections.',
          { expr: ofControlPlanes('ctl_xds'), legend: '{{instance}}' },
        ),
        chart('Bytes', 'Bps', 'Bytes sent to proxies.', rateBy('type', 'ctl_xds_config_size_bytes_sum')),
        chart(
          'Size of responses',
          'bytes',
          'Large ones cost time of Envoy.',
          quantile(0.99, 'ctl_xds_config_size_bytes', 'type'),
        ),
      ],
    },
    {
      title: 'Sidecars on demand',
      panels: [
        chart('Proxies', 'short', 'Proxies by what they get of the mesh.', {
          expr: 'sum by (configuration) (ctl_xds_on_demand_proxies)',
          legend: '{{configuration}}',
        }),
        chart('Hosts', 'short', 'Virtual hosts that these proxies hold.', {
          expr: 'sum(ctl_xds_on_demand_hosts)',
          legend: 'hosts',
        }),
        chart(
          'Asks',
          'ops',
          'missed: proxies that get what others have asked for, and asked for more.',
          rate('ctl_xds_on_demand_names_total', 'names'),
          rate('ctl_xds_on_demand_unknown_names_total', 'unknown'),
          rate('ctl_xds_on_demand_learned_misses_total', 'missed'),
          rate('ctl_xds_on_demand_learned_hosts_total', 'sent before an ask'),
        ),
        chart(
          'Answers',
          's',
          'From an ask to its answer: a first request waits for it.',
          quantile(0.5, 'ctl_xds_on_demand_answer_seconds'),
          quantile(0.99, 'ctl_xds_on_demand_answer_seconds'),
        ),
      ],
    },
    {
      title: 'Errors',
      panels: [
        chart('Rejections', 'ops', 'Responses that Envoys reject.', rateBy('type', 'ctl_total_xds_rejects')),
        chart(
          'Failed responses',
          'ops',
          'build: not generated; send: the stream has ended; timeout: the proxy does not read.',
          {
            expr: 'sum by (type, reason) (rate(ctl_xds_push_errors_total[$__rate_interval])) > 0 or vector(0)',
            legend: '{{type}} {{reason}}',
          },
        ),
        chart(
          'Internal errors',
          'ops',
          'Bugs, requests that are too large, and changes that could not be applied.',
          rate('ctl_total_xds_internal_errors', 'xDS'),
          rate('ctl_xds_push_context_errors', 'changes'),
          rate('ctl_xds_expired_nonce', 'expired nonces'),
        ),
        chart(
          'Failing views',
          'short',
          'Parts of configuration that cannot be generated now.',
          level('ctl_views_failing', 'views'),
        ),
        chart('Stale sources', 's', 'Time since a source could be read.', {
          expr: 'max by (source) (ctl_source_stale_seconds)',
          legend: '{{source}}',
        }),
        chart('Connections that end early', 'ops', 'Before HTTP/2 begins, by reason.', {
          expr: 'sum by (reason) (rate(ctl_grpc_connections_ended_early[$__rate_interval])) or vector(0)',
          legend: '{{reason}}',
        }),
      ],
    },
    {
      title: 'Configuration',
      panels: [
        chart(
          'Services',
          'short',
          'What the mesh has.',
          level('ctl_services', 'services'),
          level('ctl_eds_instances', 'endpoints'),
          level('ctl_virt_services', 'VirtualServices'),
        ),
        chart('Changes', 'ops', 'Changes that were read.', rateBy('type', 'ctl_inbound_updates')),
        chart(
          'Findings',
          'short',
          'What is probably not meant as it is: /debug/analysisz names it.',
          ...[
            'ctl_name_conflicts',
            'ctl_conflict_inbound_listener',
            'ctl_conflict_outbound_listener_tcp_over_current_tcp',
            'ctl_conflict_outbound_listener_tcp_over_current_http',
            'ctl_conflict_outbound_listener_http_over_current_tcp',
            'ctl_vservice_dup_domain',
            'ctl_destrule_subsets',
            'ctl_duplicate_proxy_clusters',
            'ctl_eds_no_instances',
            'ctl_missing_credentials',
            'ctl_policy_problems',
            'ctl_telemetry_problems',
            'ctl_no_ip',
            'ctl_endpoint_not_ready',
          ].map((name) => level(name, name.replace(/^ctl_/, ''))),
        ),
        chart('Refused policies', 'short', 'By what is in force instead.', {
          expr: 'max by (in_force) (ctl_refused_security_documents)',
          legend: '{{in_force}}',
        }),
        chart(
          'Documents refused or ignored',
          'ops',
          'With errors, or without effect.',
          rate('ctl_total_rejected_configs', 'documents'),
        ),
        chart(
          'Key sets',
          'ops',
          'Fetches of the keys of token issuers.',
          rate('ctl_jwks_resolver_network_fetch_success_total', 'successful'),
          rate('ctl_jwks_resolver_network_fetch_fail_total', 'failed'),
        ),
      ],
    },
    {
      title: 'Certificates and webhooks',
      panels: [
        chart(
          'Certificates',
          'ops',
          'Requests for certificates of workloads.',
          rate('ca_server_csr_count', 'requested'),
          rate('ca_server_success_cert_issuance_count', 'issued'),
          rate('ca_server_authentication_failure_count', 'not authenticated'),
          rate('ca_server_csr_sign_err_count', 'not signed'),
        ),
        chart(
          'Injection',
          'ops',
          'Pods that the webhook was asked about.',
          rate('sidecar_injection_success_total', 'injected'),
          rate('sidecar_injection_skip_total', 'skipped'),
          rate('sidecar_injection_failure_total', 'failed'),
        ),
        chart(
          'Validation',
          'ops',
          'Documents that the webhook was asked about.',
          { expr: 'sum(rate(cfg_validation_passed[$__rate_interval])) or vector(0)', legend: 'valid' },
          { expr: 'sum(rate(cfg_validation_failed[$__rate_interval])) or vector(0)', legend: 'refused' },
        ),
      ],
    },
  ],
};
