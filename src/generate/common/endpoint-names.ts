/**
 * The names under which proxies ask for the endpoints of their clusters. Over State of the World a proxy says all of
 * them again whenever it answers for a changed endpoint, so there they are short: a thousand clusters are 14 kB a
 * request in place of 50. Over Delta a name is said once, and is the cluster's own, for people to read. Cluster names
 * are the same for all.
 */
import { hash } from 'node:crypto';
import type { EndpointNames } from '../types.ts';

/**
 * 72 bits of base64url. Two clusters of one proxy have the same name with odds of 1 to 10^12 even if they are 100,000;
 * and to take over the endpoints of another tenant's cluster one would have to try 2^72 host names.
 */
const SHORT_NAME_CHARACTERS = 12;

/**
 * The `eds_cluster_config.service_name` of a cluster and the `cluster_name` of its load assignment
 * (https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/cluster.proto, Cluster.EdsClusterConfig): of
 * the cluster's name alone, so that it is the same in every replica and after every restart.
 */
export function endpointName(names: EndpointNames, clusterName: string): string {
  return names === 'cluster' ? clusterName : hash('sha256', clusterName, 'base64url').slice(0, SHORT_NAME_CHARACTERS);
}
