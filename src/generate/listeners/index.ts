/**
 * Outbound and inbound listeners of sidecars, and the parts that gateways use as well (connection manager, addresses).
 * The routes that outbound listeners request are in their plan.
 */
export { downstreamTls, HANDSHAKE_LIMIT } from './downstream-tls.ts';
export { httpConnectionManager, SERVER_NAME } from './http-connection-manager.ts';
export { inboundListeners, inboundListenerUnits } from './inbound.ts';
export { listenerAddresses, listenerResource, type NamedListener } from './listener-resource.ts';
export { outboundListeners, outboundListenerUnits } from './outbound.ts';
