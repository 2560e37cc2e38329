/**
 * The fields of a cluster that resolves the names that clients request below a wildcard: see `filters/dynamic-dns.ts`.
 */
import { envoy, packAny } from '../../protobuf/index.ts';
import { DYNAMIC_FORWARD_PROXY_CLUSTER, dnsCache } from '../filters/index.ts';
import type { NodeFamilies } from '../views.ts';
import { CLUSTER_PROVIDED } from './static.ts';

const { ClusterConfig } = envoy.extensions.clusters.dynamic_forward_proxy.v3;

/**
 * @param originatesTls whether the cluster has its own TLS settings
 */
export function dynamicDiscovery(
  name: string,
  families: NodeFamilies,
  refreshRateMs: number,
  originatesTls: boolean,
): Pick<envoy.config.cluster.v3.Cluster.Input, 'clusterType' | 'lbPolicy'> {
  const config = {
    dnsCacheConfig: dnsCache(name, families, refreshRateMs),
    // Envoy would refuse a fixed server name or fixed names in certificates, which a destination rule may require.
    ...(originatesTls && { allowInsecureClusterOptions: true }),
  };
  const clusterType = { name: DYNAMIC_FORWARD_PROXY_CLUSTER, typedConfig: packAny(ClusterConfig, config) };
  return { lbPolicy: CLUSTER_PROVIDED, clusterType };
}
