/** The clusters of sidecars (outbound, inbound) and gateways. */
export { gatewayClusters, gatewayClusterUnits } from './gateway.ts';
export { inboundClusters, inboundClusterUnits } from './inbound.ts';
export { outboundClusters, outboundClusterUnits } from './outbound.ts';
