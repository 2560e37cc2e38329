/**
 * The names of generated resources, which refer to each other by name and which users and tools know. Both ends of
 * every reference use these functions, so that a listener and the routes that it requests have the same name.
 */

import { isSocketPath } from './values.ts';

type Direction = 'outbound' | 'inbound';

/** Sends every connection to its original destination. */
export const PASSTHROUGH_CLUSTER = 'PassthroughCluster';
/** A cluster without endpoints: traffic to it is refused. */
export const BLACKHOLE_CLUSTER = 'BlackHoleCluster';
/** Inbound connections to ports that no service declares. */
export const INBOUND_PASSTHROUGH_CLUSTER_IPV4 = 'InboundPassthroughClusterIpv4';
export const INBOUND_PASSTHROUGH_CLUSTER_IPV6 = 'InboundPassthroughClusterIpv6';

export { VIRTUAL_INBOUND_LISTENER, VIRTUAL_OUTBOUND_LISTENER } from '../../core/proxy.ts';

/** The listener unit of the virtual listeners; all others except {@link DNS_LISTENER_UNIT} are ports. */
export const VIRTUAL_LISTENER_UNIT = 'virtual';

/** The listener unit of captured DNS queries. */
export const DNS_LISTENER_UNIT = 'dns';

/** The cluster unit of the clusters that belong to no service; a host name cannot contain `|`. */
export const STATIC_CLUSTERS_UNIT = '|static';
/** The one cluster unit of the inbound part. */
export const INBOUND_CLUSTERS_UNIT = '|inbound';

/** `outbound|<port>|<subset>|<host>`; the subset is empty for the service as a whole. */
export function clusterName(direction: Direction, port: number, subset: string, host: string): string {
  return `${direction}|${port}|${subset}|${host}`;
}

/** Begins the names of clusters that proxies on demand ask for. Each proxy has all other clusters. */
export const OUTBOUND_PREFIX = 'outbound|';

/** Whether a proxy on demand may ask for the cluster. */
export function isAskable(cluster: string): boolean {
  return cluster.startsWith(OUTBOUND_PREFIX);
}

/**
 * TLS server name of mutual TLS to a cluster: `outbound_.<port>_.<subset>_.<host>`. Gateways that pass such connections
 * through (AUTO_PASSTHROUGH) use it as cluster name.
 */
export function meshServerName(port: number, subset: string, host: string): string {
  return `outbound_.${port}_.${subset}_.${host}`;
}

/** `inbound|<port>||`: named only by the port, so that replicas and renamed services share it. */
export function inboundClusterName(port: number): string {
  return clusterName('inbound', port, '', '');
}

/** The part before the host in a name of {@link meshServerName}: subsets have no dots. */
const BEFORE_HOST = /^outbound_\.\d+_\.[^.]*_\./;

/**
 * The host in a name of {@link clusterName}, after the last `|` (which a host name cannot contain), or in one of {@link
 * meshServerName}.
 */
export function hostOfCluster(name: string): string {
  const bar = name.lastIndexOf('|');
  return bar < 0 ? name.replace(BEFORE_HOST, '') : name.slice(bar + 1);
}

/** Host and port in a name of {@link clusterName}; undefined for other names. */
export function parseClusterName(name: string): { readonly host: string; readonly port: string } | undefined {
  const [, port, , host] = name.split('|');
  return port === undefined || host === undefined ? undefined : { host, port };
}

/** Route configuration that all HTTP services of a port share: `80`. */
export function outboundRouteName(port: number): string {
  return String(port);
}

/**
 * Route configuration of one service's port, for listeners that only serve that service (sniffed, headless):
 * `<host>:<port>`.
 */
export function serviceRouteName(host: string, port: number): string {
  return `${host}:${port}`;
}

/** Host (empty for a shared one) and port of an outbound route configuration; port 0 for a unix domain socket. */
export function parseOutboundRouteName(name: string): { readonly host: string; readonly port: number } {
  if (isSocketPath(name)) return { host: '', port: 0 };
  const colon = name.lastIndexOf(':');
  return { host: name.slice(0, Math.max(0, colon)), port: Number(name.slice(colon + 1)) };
}

/** Inline route configuration of an inbound port: `inbound|<port>||`, the name of its cluster. */
export function inboundRouteName(port: number): string {
  return inboundClusterName(port);
}

/** Route configuration of all plain HTTP servers of a gateway port: `http.<port>`. */
export function gatewayHttpRouteName(port: number): string {
  return `http.${port}`;
}

/**
 * Route configuration of one TLS-terminating server of a gateway: `https.<port>.<portName>.<gatewayName>.<namespace>`.
 */
export function gatewayHttpsRouteName(port: number, portName: string, gatewayName: string, namespace: string): string {
  return `https.${port}.${portName}.${gatewayName}.${namespace}`;
}

/** `<ip>_<port>`, or the path for a unix domain socket (port 0). */
export function listenerName(bind: string, port: number): string {
  return port === 0 ? bind : `${bind}_${port}`;
}
