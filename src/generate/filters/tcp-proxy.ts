/** TCP proxying: a connection goes to one cluster, or to one of several by weight. */

import { envoy } from '../../protobuf/index.ts';
import { BLACKHOLE_CLUSTER, PASSTHROUGH_CLUSTER } from '../common/index.ts';
import { bytesInside, type DestinationTraits } from './destination-traits.ts';
import { type ProxyCapabilities, TCP_PROXY, typedConfig } from './extensions.ts';
import type { Telemetry } from './telemetry/telemetry.ts';

export type FilterChain = envoy.config.listener.v3.FilterChain.Input;
export type FilterChainMatch = envoy.config.listener.v3.FilterChainMatch.Input;
type NetworkFilter = envoy.config.listener.v3.Filter.Input;

/** One destination of a TCP proxy; weights count relative to each other. */
export interface WeightedTcpCluster {
  readonly cluster: string;
  readonly weight: number;
}

export interface TcpProxyOptions {
  readonly statPrefix: string;
  /** Those of weight 0 get nothing. The weight of a single one does not matter. */
  readonly clusters: readonly WeightedTcpCluster[];
  /** Same client address, same endpoint: for clusters with a hashing load balancer. */
  readonly hashSourceIp?: boolean;
}

/** The network filter that forwards a connection. Without any destination connections are refused. */
export function tcpProxy({ connectionLogs }: Telemetry, options: TcpProxyOptions): NetworkFilter {
  const { TcpProxy } = envoy.extensions.filters.network.tcp_proxy.v3;
  // Envoy refuses weights below 1 (TcpProxy.WeightedCluster.ClusterWeight.weight).
  const used = options.clusters.length > 1 ? options.clusters.filter(({ weight }) => weight > 0) : options.clusters;
  return typedConfig(TCP_PROXY, TcpProxy, {
    statPrefix: options.statPrefix,
    ...(used.length > 1
      ? { weightedClusters: { clusters: used.map(({ cluster, weight }) => ({ name: cluster, weight })) } }
      : { cluster: used[0]?.cluster ?? BLACKHOLE_CLUSTER }),
    ...(options.hashSourceIp === true && { hashPolicy: [{ sourceIp: {} }] }),
    accessLog: connectionLogs,
  });
}

/** A TCP proxy, and the filters before it for its destinations. */
export function tcpFilters(
  telemetry: Telemetry,
  view: ProxyCapabilities,
  { destinations, ...options }: TcpProxyOptions & { readonly destinations: readonly DestinationTraits[] },
): NetworkFilter[] {
  const hashSourceIp = destinations.some((destination) => destination.hashSourceIp);
  const before = bytesInside(
    view,
    destinations.map(({ tls }) => tls),
  );
  return [...before, tcpProxy(telemetry, { ...options, hashSourceIp })];
}

/** A filter chain of one TCP proxy to one cluster, with statistics under the cluster's name. */
export function tcpProxyChain(
  telemetry: Telemetry,
  cluster: string,
  chain: Omit<FilterChain, 'filters'> = {},
): FilterChain {
  const filters = [tcpProxy(telemetry, { statPrefix: cluster, clusters: [{ cluster, weight: 1 }] })];
  return { ...chain, filters };
}

export function unknownTrafficCluster(policy: 'ALLOW_ANY' | 'REGISTRY_ONLY'): string {
  return policy === 'ALLOW_ANY' ? PASSTHROUGH_CLUSTER : BLACKHOLE_CLUSTER;
}
