/**
 * Dynamic DNS: the proxy resolves the names below a wildcard that its clients request, and connects to the resulting
 * addresses (Envoy's dynamic forward proxy). For HTTP, the cluster resolves the host of the request; for TLS
 * connections, a network filter resolves the server name for the cluster.
 */
import { envoy } from '../../protobuf/index.ts';
import { toDuration } from '../common/index.ts';
import type { NodeFamilies } from '../views.ts';
import {
  hasExtension,
  type ProxyCapabilities,
  SET_FILTER_STATE,
  SNI_DYNAMIC_FORWARD_PROXY,
  type TypedConfig,
  typedConfig,
} from './extensions.ts';

type DnsCacheConfig = envoy.extensions.common.dynamic_forward_proxy.v3.DnsCacheConfig.Input;

/**
 * Maximum names of one cluster that a proxy keeps: clients choose them. Requests for others fail until unused ones are
 * dropped, after five minutes (`DnsCacheConfig.host_ttl`). This is Envoy's default, set explicitly because it is a
 * limit.
 */
const MAX_HOSTS = 1024;

/** Envoy's well-known key for the port of dynamic forward proxies, used if the host of a request has no port. */
const UPSTREAM_PORT = 'envoy.upstream.dynamic_port';

/** The default ports of Envoy: for plain-text requests, and with TLS origination. */
const DEFAULT_PORTS: ReadonlySet<number> = new Set([80, 443]);

/** `envoy.config.cluster.v3.Cluster.DnsLookupFamily`. With both families, IPv4 is preferred, as for other names. */
const LOOKUP_FAMILY = { ipv4: 1, ipv6: 2, dual: 3 } as const satisfies Record<NodeFamilies, number>;

/** The names of one cluster. Envoy refuses two caches of one name with different settings. */
export function dnsCache(cluster: string, families: NodeFamilies, refreshRateMs: number): DnsCacheConfig {
  return {
    name: cluster,
    dnsLookupFamily: LOOKUP_FAMILY[families],
    dnsRefreshRate: toDuration(refreshRateMs),
    maxHosts: { value: MAX_HOSTS },
  };
}

/**
 * The network filter that resolves the server name of a TLS connection. Without it the cluster has no host and refuses
 * the connection.
 */
export function serverNameResolver(view: ProxyCapabilities, port: number, names: DnsCacheConfig): TypedConfig[] {
  if (!hasExtension(view, SNI_DYNAMIC_FORWARD_PROXY)) return [];
  const { FilterConfig } = envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3;
  return [typedConfig(SNI_DYNAMIC_FORWARD_PROXY, FilterConfig, { portValue: port, dnsCacheConfig: names })];
}

/** The network filter that sets the port for requests whose host has none. */
export function portOfRequests(view: ProxyCapabilities, port: number | undefined): TypedConfig[] {
  if (port === undefined || DEFAULT_PORTS.has(port) || !hasExtension(view, SET_FILTER_STATE)) return [];
  const value = {
    objectKey: UPSTREAM_PORT,
    formatString: { textFormatSource: { inlineString: String(port) } },
  };
  const { Config } = envoy.extensions.filters.network.set_filter_state.v3;
  return [typedConfig(SET_FILTER_STATE, Config, { onNewConnection: [value] })];
}
