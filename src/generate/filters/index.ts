/** Filters and access logs of listeners, and whether a proxy has them. */
export { type DestinationTraits, destinationTraits } from './destination-traits.ts';
export { dnsCache, portOfRequests, serverNameResolver } from './dynamic-dns.ts';
export {
  ASKED_EXTENSIONS,
  type AskedExtension,
  CORS_FILTER,
  DNS_FILTER,
  DYNAMIC_FORWARD_PROXY_CLUSTER,
  EARLY_HEADER_MUTATION,
  FAULT_FILTER,
  GRPC_STATS_FILTER,
  GRPC_WEB_FILTER,
  HTTP_CONNECTION_MANAGER,
  HTTP_INSPECTOR,
  hasExtension,
  LUA_FILTER,
  ON_DEMAND_FILTER,
  ORIGINAL_DST_FILTER,
  PREVIOUS_HOSTS,
  PREVIOUS_PRIORITIES,
  PROXY_PROTOCOL_FILTER,
  type ProxyCapabilities,
  ROUTER_FILTER,
  sharedCapabilities,
  TLS_INSPECTOR,
  typedConfig,
} from './extensions.ts';
export {
  alpnFilter,
  announcesByFilter,
  CLUSTER_PEER_EXCHANGE,
  KEEPS_ALPN,
  serverPeerExchange,
  tcpAlpn,
  tellsClients,
  tellsServers,
} from './peer-exchange.ts';
export { connectionDecisions, decisionFilters } from './policy.ts';
export { isHttp, isTls, type ProtocolKind, protocolKind, sniffs } from './protocol-kind.ts';
export {
  counting,
  type FilterChain,
  type FilterChainMatch,
  forwardingFilters,
  tcpFilters,
  tcpProxy,
  tcpProxyChain,
  type WeightedTcpCluster,
} from './tcp-proxy.ts';
export { metricsSource } from './telemetry/metrics/plan.ts';
export { type MetricsSource, serviceMetadata } from './telemetry/metrics/service-metadata.ts';
export { collectorHosts } from './telemetry/providers.ts';
export { isTraced, type Telemetry, telemetryOf, telemetryProblems } from './telemetry/telemetry.ts';
export { thriftLimitProblems, thriftRateLimit } from './thrift-rate-limit.ts';
export { type UnknownTraffic, unknownFilters, unknownTraffic } from './unknown-traffic.ts';
