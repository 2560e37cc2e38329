/**
 * The names under which proxies request the endpoints of their clusters. With State of the World, a proxy repeats all
 * of them in each acknowledgement of a changed endpoint, so they are short: a request for a thousand clusters has 14 kB
 * instead of 50. With Delta, a name is sent once, and is the readable name of the cluster. Cluster names are the same
 * in both variants.
 */
import { hash } from 'node:crypto';
import type { EndpointNames } from '../views.ts';

/**
 * 72 bits of base64url. For a proxy with 100,000 clusters the odds of two equal names are 1 to 10^12; to take over the
 * endpoints of another tenant's cluster an attacker would have to try 2^72 host names.
 */
const SHORT_NAME_CHARACTERS = 12;

/**
 * The `eds_cluster_config.service_name` of a cluster and the `cluster_name` of its load assignment
 * (https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/cluster.proto, Cluster.EdsClusterConfig). It
 * depends on the cluster's name only, so that it is the same in every replica and after every restart.
 */
export function endpointName(names: EndpointNames, clusterName: string): string {
  return names === 'cluster' ? clusterName : hash('sha256', clusterName, 'base64url').slice(0, SHORT_NAME_CHARACTERS);
}
