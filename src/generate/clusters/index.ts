/** The clusters of sidecars (outbound, inbound) and gateways. */
export { gatewayClusters, gatewayClusterUnits, hostsUsedAnew } from './gateway.ts';
export { inboundClusters, inboundClusterUnits } from './inbound.ts';
export { outboundClusters, outboundClusterUnits } from './outbound.ts';
