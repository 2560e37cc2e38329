/** The clusters of sidecars (outbound, inbound) and gateways. */
export { gatewayClusters, gatewayClusterUnits } from './gateway.ts';
export { inboundClusters, inboundClusterUnits } from './inbound.ts';
export { laterClusterUnits } from './later.ts';
export { loadBalancing } from './load-balancer.ts';
export { type MeshPeering, meshPeers } from './mesh-upstream.ts';
export { outboundClusters, outboundClusterUnits } from './outbound.ts';
