/**
 * The door of the listener generators: outbound and inbound listeners of sidecars, and the builders that gateways share
 * (connection manager, TCP proxies). What outbound listeners ask for by RDS stands in the port plan.
 */

export { destinationTraits } from '../filters/bytes-inside.ts';
export { hasExtension, TLS_INSPECTOR, typedConfig } from '../filters/extensions.ts';
export { sniffs } from '../filters/protocol-kind.ts';
export { type FilterChain, tcpFilters, tcpProxy } from '../filters/tcp-proxy.ts';
export { httpConnectionManager, SERVER_NAME } from './http-connection-manager.ts';
export { inboundListeners, inboundListenerUnits } from './inbound.ts';
export { routesConnections } from './l4-chains.ts';
export { listenerAddresses, listenerResource, type NamedListener } from './listener-resource.ts';
export { outboundListeners, outboundListenerUnits } from './outbound.ts';
