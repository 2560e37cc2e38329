/**
 * Outbound and inbound listeners of sidecars, and what gateways build theirs from as well (connection manager,
 * addresses). The routes that outbound listeners ask for are in their plan.
 */
export { httpConnectionManager, SERVER_NAME } from './http-connection-manager.ts';
export { inboundListeners, inboundListenerUnits } from './inbound.ts';
export { listenerAddresses, listenerResource, type NamedListener } from './listener-resource.ts';
export { outboundListeners, outboundListenerUnits } from './outbound.ts';
