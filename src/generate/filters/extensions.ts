/** Names of the Envoy extensions in listeners, and whether a proxy has one. */
import type { Memos } from '../../core/memo.ts';
import type { Encodable, envoy } from '../../protobuf/index.ts';
import { packAny } from '../../protobuf/index.ts';
import type { Capabilities, EnvoyView } from '../views.ts';

export const HTTP_CONNECTION_MANAGER = 'envoy.filters.network.http_connection_manager';
export const TCP_PROXY = 'envoy.filters.network.tcp_proxy';
export const ROUTER_FILTER = 'envoy.filters.http.router';
export const CORS_FILTER = 'envoy.filters.http.cors';
export const FAULT_FILTER = 'envoy.filters.http.fault';
export const GRPC_STATS_FILTER = 'envoy.filters.http.grpc_stats';
export const GRPC_WEB_FILTER = 'envoy.filters.http.grpc_web';
export const ON_DEMAND_FILTER = 'envoy.filters.http.on_demand';
export const LUA_FILTER = 'envoy.filters.http.lua';
export const EARLY_HEADER_MUTATION = 'envoy.http.early_header_mutation.header_mutation';
export const SET_FILTER_STATE = 'envoy.filters.network.set_filter_state';
export const SNI_DYNAMIC_FORWARD_PROXY = 'envoy.filters.network.sni_dynamic_forward_proxy';
export const DYNAMIC_FORWARD_PROXY_CLUSTER = 'envoy.clusters.dynamic_forward_proxy';
export const TLS_INSPECTOR = 'envoy.filters.listener.tls_inspector';
export const DNS_FILTER = 'envoy.filters.udp.dns_filter';
export const HTTP_INSPECTOR = 'envoy.filters.listener.http_inspector';
export const PROXY_PROTOCOL_FILTER = 'envoy.filters.listener.proxy_protocol';
export const ORIGINAL_DST_FILTER = 'envoy.filters.listener.original_dst';
export const PREVIOUS_HOSTS = 'envoy.retry_host_predicates.previous_hosts';
export const PREVIOUS_PRIORITIES = 'envoy.retry_priorities.previous_priorities';
export const MONGO_FILTER = 'envoy.filters.network.mongo_proxy';
export const MYSQL_FILTER = 'envoy.filters.network.mysql_proxy';
export const REDIS_FILTER = 'envoy.filters.network.redis_proxy';
export const THRIFT_FILTER = 'envoy.filters.network.thrift_proxy';
export const THRIFT_RATE_LIMIT_FILTER = 'envoy.filters.thrift.rate_limit';
export const THRIFT_ROUTER_FILTER = 'envoy.filters.thrift.router';
/** Extensions of Istio's builds of Envoy. */
export const PEER_EXCHANGE_FILTER = 'envoy.filters.network.metadata_exchange';
export const PEER_EXCHANGE_UPSTREAM_FILTER = 'envoy.filters.network.upstream.metadata_exchange';
export const ALPN_FILTER = 'istio.alpn';
export const FILE_ACCESS_LOG = 'envoy.access_loggers.file';
export const STDOUT_ACCESS_LOG = 'envoy.access_loggers.stdout';
export const STDERR_ACCESS_LOG = 'envoy.access_loggers.stderr';
export const HTTP_GRPC_ACCESS_LOG = 'envoy.access_loggers.http_grpc';
export const TCP_GRPC_ACCESS_LOG = 'envoy.access_loggers.tcp_grpc';
export const OPENTELEMETRY_ACCESS_LOG = 'envoy.access_loggers.open_telemetry';
/** It has bounds for its series since Envoy 1.40. */
export const STATS_ACCESS_LOG = 'envoy.access_loggers.stats';
/** The filter of Istio's proxies that counts requests and connections. */
export const ISTIO_STATS_FILTER = 'istio.stats';
export const CEL_LOG_FILTER = 'envoy.access_loggers.extension_filters.cel';
export const ZIPKIN_TRACER = 'envoy.tracers.zipkin';
export const OPENTELEMETRY_TRACER = 'envoy.tracers.opentelemetry';
export const DATADOG_TRACER = 'envoy.tracers.datadog';
export const SKYWALKING_TRACER = 'envoy.tracers.skywalking';

/**
 * Extensions whose presence generation checks. A view only contains these of its proxies' extensions, so that
 * everything that generation reads is in its key.
 */
export const ASKED_EXTENSIONS = [
  FILE_ACCESS_LOG,
  STDERR_ACCESS_LOG,
  STDOUT_ACCESS_LOG,
  DYNAMIC_FORWARD_PROXY_CLUSTER,
  CORS_FILTER,
  DNS_FILTER,
  FAULT_FILTER,
  GRPC_STATS_FILTER,
  GRPC_WEB_FILTER,
  ON_DEMAND_FILTER,
  LUA_FILTER,
  HTTP_INSPECTOR,
  ORIGINAL_DST_FILTER,
  MONGO_FILTER,
  MYSQL_FILTER,
  REDIS_FILTER,
  PROXY_PROTOCOL_FILTER,
  SET_FILTER_STATE,
  THRIFT_FILTER,
  THRIFT_RATE_LIMIT_FILTER,
  PEER_EXCHANGE_FILTER,
  PEER_EXCHANGE_UPSTREAM_FILTER,
  ALPN_FILTER,
  SNI_DYNAMIC_FORWARD_PROXY,
  TLS_INSPECTOR,
  EARLY_HEADER_MUTATION,
  PREVIOUS_HOSTS,
  PREVIOUS_PRIORITIES,
  HTTP_GRPC_ACCESS_LOG,
  TCP_GRPC_ACCESS_LOG,
  OPENTELEMETRY_ACCESS_LOG,
  STATS_ACCESS_LOG,
  ISTIO_STATS_FILTER,
  CEL_LOG_FILTER,
  ZIPKIN_TRACER,
  OPENTELEMETRY_TRACER,
  DATADOG_TRACER,
  SKYWALKING_TRACER,
] as const;
export type AskedExtension = (typeof ASKED_EXTENSIONS)[number];

/** The part of a view that describes the Envoys that share it. */
export type ProxyCapabilities = Pick<EnvoyView, 'capabilities'>;

/** Whether the view's proxies have an extension built in. A node that sent no list is assumed to have them all. */
export function hasExtension({ capabilities }: ProxyCapabilities, name: AskedExtension): boolean {
  return capabilities.extensions === undefined || capabilities.extensions.includes(name);
}

/** Whether the view's proxies list an extension that only some builds of Envoy have. */
export function listsExtension({ capabilities }: ProxyCapabilities, name: AskedExtension): boolean {
  return capabilities.extensions?.includes(name) === true;
}

/** A mesh has a few versions of Envoy, but proxies can report anything. */
const MAX_CAPABILITIES = 256;

/**
 * Returns the same object for equal capabilities, for caches that compare by identity. There are few: subsets of the
 * checked extensions.
 */
export function sharedCapabilities(memos: Memos, { capabilities }: ProxyCapabilities): Capabilities {
  return memos.weak<Capabilities, Capabilities>('shared capabilities').get(capabilities, () => {
    const byText = memos.weak<Memos, Map<string, Capabilities>>('capabilities by text').get(memos, () => new Map());
    const text = JSON.stringify(capabilities);
    const shared = byText.get(text) ?? capabilities;
    if (byText.size >= MAX_CAPABILITIES) byText.clear();
    byText.set(text, shared);
    return shared;
  });
}

/** The common shape of network filters, HTTP filters, listener filters and access loggers. */
export interface TypedConfig {
  readonly name: string;
  readonly typedConfig: envoy.config.listener.v3.Filter.Input['typedConfig'];
}

export function typedConfig<Input>(name: string, type: Encodable<Input>, config: NoInfer<Input>): TypedConfig {
  return { name, typedConfig: packAny(type, config) };
}
