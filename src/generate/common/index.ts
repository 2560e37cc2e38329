/**
 * Functions that all generators share: names of resources, address families and ranges, TLS of the mesh, and caches by
 * input.
 */
export { addressKey, cidrRange, cidrRanges, isRange, rangeHolds } from './cidr.ts';
export { configMetadata, joinedMetadata } from './config-metadata.ts';
export { endpointName } from './endpoint-names.ts';
export { InputCache } from './input-cache.ts';
export {
  type Binds,
  familiesOf,
  familiesOfNode,
  hasFamilyOf,
  loopbackBinds,
  type OnFamilies,
  reachableEndpoints,
  wildcardBinds,
} from './ip-families.ts';
export { joinedResource } from './joined-resource.ts';
export {
  agentFileSecret,
  agentKubernetesSecret,
  anyWorkload,
  exactName,
  HTTP_INSIDE,
  MESH_ALPN,
  MESH_TLS,
  meshServerSocket,
  meshTlsContext,
  PEER_EXCHANGE,
  type SanMatcher,
  TLS_SOCKET,
  trustDomainsOf,
  workloadsOf,
} from './mesh-tls.ts';
export {
  BLACKHOLE_CLUSTER,
  clusterName,
  DNS_LISTENER_UNIT,
  gatewayHttpRouteName,
  gatewayHttpsRouteName,
  hostOfCluster,
  INBOUND_CLUSTERS_UNIT,
  INBOUND_PASSTHROUGH_CLUSTER_IPV4,
  INBOUND_PASSTHROUGH_CLUSTER_IPV6,
  inboundClusterName,
  inboundRouteName,
  isAskable,
  listenerName,
  meshServerName,
  OUTBOUND_PREFIX,
  outboundRouteName,
  PASSTHROUGH_CLUSTER,
  parseClusterName,
  parseOutboundRouteName,
  STATIC_CLUSTERS_UNIT,
  serviceRouteName,
  VIRTUAL_INBOUND_LISTENER,
  VIRTUAL_LISTENER_UNIT,
  VIRTUAL_OUTBOUND_LISTENER,
} from './names.ts';
export { RangeIndex } from './range-index.ts';
export { type EffectivePolicy, effectivePolicy, gatewayPolicy, isGatewayTls } from './traffic-policy.ts';
export { API_VERSION_V3, addressOf, adsConfigSource, isIpAddress, isSocketPath, toDuration } from './values.ts';
export { addressedScope, scopeIdOfView, scopeOfView } from './view-scope.ts';
