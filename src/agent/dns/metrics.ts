/** Counters of the agent's DNS server as metrics. */
import type { DnsServerStats, ForwarderStats } from '../../dns/index.ts';
import type { IdentityMetric } from '../types.ts';

export interface DnsCounters {
  readonly server: DnsServerStats;
  readonly forwarder: ForwarderStats;
  /** How long queries have waited for other servers, ms. */
  readonly waitedMs: number;
  readonly names: number;
}

export function dnsMetrics({ server, forwarder, waitedMs, names }: DnsCounters): readonly IdentityMetric[] {
  return [
    ...Object.entries(server.queries).map(([protocol, value]) => ({
      name: 'dns_requests_total',
      value,
      labels: { protocol },
    })),
    ...[...server.responses].map(([code, value]) => ({ name: 'dns_responses_total', value, labels: { code } })),
    { name: 'dns_upstream_requests_total', value: forwarder.upstreamQueries },
    { name: 'dns_upstream_failures_total', value: forwarder.upstreamFailures },
    { name: 'dns_upstream_latency', value: Math.round(waitedMs) },
    { name: 'dns_names', value: names },
  ];
}
