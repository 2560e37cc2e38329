/** TCP proxying: a connection goes to one cluster, or to one of several by weight. */

import { envoy } from '../../protobuf/index.ts';
import type { Tunnel } from '../../resources/index.ts';
import { adsConfigSource, BLACKHOLE_CLUSTER, isAskable, toDuration } from '../common/index.ts';
import { bytesInside, type ConnectionSettings, type DestinationTraits } from './destination-traits.ts';
import { type ProxyCapabilities, TCP_PROXY, type TypedConfig, typedConfig } from './extensions.ts';
import { type ForwardedPort, forwarded, isRead } from './forwarding.ts';
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
  /** Clusters with weight 0 get no connections. The weight of a single cluster does not matter. */
  readonly clusters: readonly WeightedTcpCluster[];
  /** Same client address, same endpoint: for clusters with a hashing load balancer. */
  readonly hashSourceIp?: boolean;
  readonly settings?: ConnectionSettings | undefined;
  /** The proxy asks for a cluster that it does not have when a connection needs it. */
  readonly onDemand?: boolean;
}

/**
 * How long a connection waits for a cluster that its proxy asks for, ms: longer than a control plane with many proxies
 * takes, shorter than clients wait. Without `ctl-discovery`, connections to services in use never wait.
 */
const ASK_TIMEOUT_MS = 5000;

/** The network filter that forwards a connection. Without any destination, connections are refused. */
export function tcpProxy({ connectionLogs }: Telemetry, options: TcpProxyOptions): TypedConfig {
  const { TcpProxy } = envoy.extensions.filters.network.tcp_proxy.v3;
  // Envoy refuses weights below 1 (TcpProxy.WeightedCluster.ClusterWeight.weight).
  const used = options.clusters.length > 1 ? options.clusters.filter(({ weight }) => weight > 0) : options.clusters;
  return typedConfig(TCP_PROXY, TcpProxy, {
    statPrefix: options.statPrefix,
    ...(used.length > 1
      ? { weightedClusters: { clusters: used.map(({ cluster, weight }) => ({ name: cluster, weight })) } }
      : { cluster: used[0]?.cluster ?? BLACKHOLE_CLUSTER }),
    ...(options.hashSourceIp === true && { hashPolicy: [{ sourceIp: {} }] }),
    ...(options.settings !== undefined && connectionOptions(options.settings)),
    ...(options.onDemand === true && {
      onDemand: { odcdsConfig: adsConfigSource(ASK_TIMEOUT_MS), timeout: toDuration(ASK_TIMEOUT_MS) },
    }),
    accessLog: connectionLogs,
  });
}

/** The filters that count the connection, before those that forward it. */
export function counting({ statsFilter }: Telemetry): TypedConfig[] {
  return statsFilter === undefined ? [] : [statsFilter];
}

type TcpProxyInput = envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.Input;

function connectionOptions({ tunnel, idleTimeout, maxDuration }: ConnectionSettings): Partial<TcpProxyInput> {
  return {
    ...(idleTimeout !== undefined && { idleTimeout: toDuration(idleTimeout) }),
    ...(maxDuration !== undefined && maxDuration > 0 && { maxDownstreamConnectionDuration: toDuration(maxDuration) }),
    ...(tunnel !== undefined && { tunnelingConfig: toTunnel(tunnel) }),
  };
}

function toTunnel({ protocol, targetHost, targetPort = 0 }: Tunnel): TcpProxyInput['tunnelingConfig'] {
  const host = targetHost.includes(':') ? `[${targetHost}]` : targetHost;
  return { hostname: `${host}:${targetPort}`, ...(protocol === 'POST' && { usePost: true }) };
}

export interface TcpFiltersOptions extends TcpProxyOptions {
  readonly destinations: readonly DestinationTraits[];
  readonly port: ForwardedPort;
}

/** A TCP proxy or the filter of the protocol, and the filters before it for its destinations. */
export function tcpFilters(
  telemetry: Telemetry,
  view: ProxyCapabilities,
  { destinations, port, ...options }: TcpFiltersOptions,
): NetworkFilter[] {
  const hashSourceIp = destinations.some((destination) => destination.hashSourceIp);
  const settings = commonSettings(destinations);
  const inside = settings?.tunnel === undefined ? destinations.map(({ tls }) => tls) : [];
  const { clusters, statPrefix } = options;
  const cluster = clusters.length === 1 && settings?.tunnel === undefined ? clusters[0]?.cluster : undefined;
  const original = destinations.some((destination) => destination.original);
  const onDemand = view.capabilities.onDemand !== undefined && settings?.tunnel === undefined && mayAsk(port, clusters);
  const proxy = tcpProxy(telemetry, { ...options, hashSourceIp, settings, onDemand });
  return [
    ...bytesInside(port.settings, view, inside),
    ...counting(telemetry),
    ...forwarded(view, port, { statPrefix, cluster, original }, proxy),
  ];
}

/** Whether connections may wait for clusters: nothing else than the TCP proxy reads or names them. */
function mayAsk({ protocol }: ForwardedPort, clusters: readonly WeightedTcpCluster[]): boolean {
  return !isRead(protocol) && clusters.length > 0 && clusters.every(({ cluster }) => isAskable(cluster));
}

/** The filters to one cluster, with statistics under the cluster's name. */
export function forwardingFilters(
  telemetry: Telemetry,
  view: ProxyCapabilities,
  cluster: string,
  port: ForwardedPort,
  settings?: ConnectionSettings,
): NetworkFilter[] {
  const proxy = tcpProxy(telemetry, { statPrefix: cluster, clusters: [{ cluster, weight: 1 }], settings });
  return [...counting(telemetry), ...forwarded(view, port, { statPrefix: cluster, cluster, original: false }, proxy)];
}

/**
 * The settings of a TCP proxy with several destinations, which has only one value of each: the shortest timeouts, and
 * the tunnel if all destinations have the same.
 */
function commonSettings(destinations: readonly DestinationTraits[]): ConnectionSettings | undefined {
  const [first, ...others] = destinations;
  if (first === undefined || others.length === 0) return first;
  return {
    tunnel: others.every(({ tunnel }) => isSame(tunnel, first.tunnel)) ? first.tunnel : undefined,
    idleTimeout: shortest(destinations.map(({ idleTimeout }) => idleTimeout)),
    maxDuration: shortest(destinations.map(({ maxDuration }) => maxDuration)),
  };
}

function isSame(one: Tunnel | undefined, other: Tunnel | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  const [a, b] = [toTunnel(one), toTunnel(other)];
  return a?.hostname === b?.hostname && a?.usePost === b?.usePost;
}

/** 0 means no limit. */
function shortest(times: readonly (number | undefined)[]): number | undefined {
  const set = times.filter((time) => time !== undefined);
  const limits = set.filter((time) => time > 0);
  return limits.length > 0 ? Math.min(...limits) : set[0];
}

/** A filter chain of one TCP proxy to one cluster, with statistics under the cluster's name. */
export function tcpProxyChain(
  telemetry: Telemetry,
  cluster: string,
  chain: Omit<FilterChain, 'filters'> = {},
): FilterChain {
  const filters = [
    ...counting(telemetry),
    tcpProxy(telemetry, { statPrefix: cluster, clusters: [{ cluster, weight: 1 }] }),
  ];
  return { ...chain, filters };
}
