/** How a cluster resolves the names of its endpoints. */
import { envoy, packAny } from '../../protobuf/index.ts';
import { toDuration } from '../common/index.ts';
import type { NodeFamilies } from '../views.ts';
import { STRICT_DNS } from './static.ts';

type Cluster = envoy.config.cluster.v3.Cluster.Input;

const { DnsCluster } = envoy.extensions.clusters.dns.v3;
const { V4_ONLY, V6_ONLY, V4_PREFERRED } = envoy.extensions.clusters.common.dns.v3.DnsLookupFamily;

/**
 * DNS lookup families by the address families of the machine. With both families, IPv4 is preferred: many machines with
 * an IPv6 address have no IPv6 connectivity beyond their network.
 */
const LOOKUP_FAMILY = { ipv4: V4_ONLY, ipv6: V6_ONLY, dual: V4_PREFERRED } as const satisfies Record<
  NodeFamilies,
  number
>;

/** `envoy.config.cluster.v3.Cluster.DnsLookupFamily` has the same names with different numbers. */
const OLD_LOOKUP_FAMILY = { ipv4: 1, ipv6: 2, dual: 3 } as const satisfies Record<NodeFamilies, number>;

/** How Envoy resolves names to endpoints (all of their addresses), and how often. */
interface DnsSettings {
  readonly families: NodeFamilies;
  readonly refreshRateMs: number;
  /** Whether Envoy has the extension that replaces the cluster's own fields. */
  readonly typed: boolean;
}

export function dnsDiscovery({ families, refreshRateMs, typed }: DnsSettings): Cluster {
  const common = { dnsRefreshRate: toDuration(refreshRateMs), respectDnsTtl: true };
  if (!typed) return { type: STRICT_DNS, ...common, dnsLookupFamily: OLD_LOOKUP_FAMILY[families] };
  const config = { ...common, dnsLookupFamily: LOOKUP_FAMILY[families] };
  return { clusterType: { name: 'envoy.cluster.dns', typedConfig: packAny(DnsCluster, config) } };
}
