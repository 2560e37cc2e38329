/** The board of agents and their Envoys: connected, certified, restarted. */
import { type Board, chart, number, type Query, rate, rateBy } from './board.ts';

const total = (name: string, legend: string): Query => ({ expr: `sum(${name})`, legend });

export const AGENT: Board = {
  uid: 'mesh-agent',
  title: 'Mesh / Agents',
  rows: [
    {
      title: 'Now',
      panels: [
        number('Agents', 'short', 'Agents that Prometheus scrapes.', 'count(mesh_build{component="ctl-agent"})'),
        number(
          'Disconnected',
          'short',
          'Agents without a connection to the control plane.',
          'count(xds_upstream_connected == 0) or vector(0)',
          1,
        ),
        number('Envoys', 'short', 'Envoys that serve.', 'sum(envoy_server_live)'),
        number('Next expiry', 's', 'Seconds until the first certificate expires.', 'min(cert_expiry_seconds)'),
        number(
          'Restarts',
          'short',
          'Envoys that started again within an hour.',
          'sum(envoy_starts_total) - count(envoy_starts_total)',
          1,
        ),
        number('Names', 'short', 'Names that the DNS server of an agent knows.', 'max(dns_names)'),
      ],
    },
    {
      title: 'Configuration',
      panels: [
        chart(
          'xDS',
          'ops',
          'Requests and responses that agents pass on, rejections of Envoys.',
          rate('xds_proxy_requests_total', 'requests'),
          rate('xds_proxy_responses_total', 'responses'),
          rate('xds_proxy_rejections_total', 'rejections'),
        ),
        chart(
          'Connections',
          'short',
          'To the control plane, and from Envoys.',
          total('xds_upstream_connected', 'connected agents'),
          total('xds_proxy_connections', 'streams of Envoys'),
        ),
        chart(
          'Failures',
          'ops',
          'Connections to the control plane that failed; responses from the last saved configuration.',
          rate('xds_upstream_failures_total', 'failed connections'),
          rate('xds_proxy_snapshot_responses_total', 'responses from the snapshot'),
        ),
        chart('Age of saved configuration', 's', 'While the control plane is away.', {
          expr: 'max(xds_proxy_snapshot_age_seconds)',
          legend: 'oldest',
        }),
        chart(
          'Updates of Envoy',
          'ops',
          'Updates of clusters and listeners that Envoys accepted and rejected.',
          rate('envoy_cluster_manager_cds_update_success', 'clusters'),
          rate('envoy_cluster_manager_cds_update_rejected', 'clusters rejected'),
          rate('envoy_listener_manager_lds_update_success', 'listeners'),
          rate('envoy_listener_manager_lds_update_rejected', 'listeners rejected'),
        ),
        chart('Memory of Envoys', 'bytes', 'Allocated.', total('envoy_server_memory_allocated', 'allocated')),
      ],
    },
    {
      title: 'Certificates',
      panels: [
        chart('Expiry', 's', 'Seconds until the first certificate expires.', {
          expr: 'min by (resource_name) (cert_expiry_seconds)',
          legend: '{{resource_name}}',
        }),
        chart(
          'Secrets',
          'ops',
          'Certificates sent to Envoys.',
          rate('total_pushes', 'sent'),
          rate('total_push_errors', 'failed'),
          rate('total_secret_update_failures', 'rejected by Envoy'),
        ),
        chart(
          'Requests',
          'ops',
          'To certificate authorities and token servers.',
          rateBy('request_type', 'num_outgoing_requests{request_type!=""}'),
        ),
      ],
    },
    {
      title: 'DNS',
      panels: [
        chart(
          'Queries',
          'ops',
          'Received, and sent on to other servers.',
          { expr: 'sum(rate(dns_requests_total[$__rate_interval])) or vector(0)', legend: 'received' },
          rate('dns_upstream_requests_total', 'sent on'),
          rate('dns_upstream_failures_total', 'failed'),
        ),
        chart('Responses', 'ops', 'By response code.', {
          expr: 'sum by (code) (rate(dns_responses_total[$__rate_interval])) or vector(0)',
          legend: '{{code}}',
        }),
        chart('Scrapes', 'ops', 'Of agents by Prometheus.', rate('scrapes_total', 'scrapes')),
      ],
    },
  ],
};
