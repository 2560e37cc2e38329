/**
 * The route configurations of sidecars, and the parts from which gateways build theirs.
 *
 *   virtual services ─┐
 *   services ─────────┼─▶ virtual hosts (encoded, kept while what they are made of stays) ─▶ route configurations
 *   catch-all ────────┘                                                                └─▶ or resources of their own (VHDS)
 */
export { weighted } from './action.ts';
export { contextKey, type RouteContext, routeFeatures, scopeLookups } from './context.ts';
export { destinationCluster, destinationPort } from './destination.ts';
export { MAX_BODY_BYTES } from './direct-response.ts';
export { hasRoutes, joinRoutes, virtualServiceRoutes } from './http-route.ts';
export { appliesHere } from './match.ts';
export type { Route, VirtualHostMessage } from './messages.ts';
export { discoveredUnits, outboundRoutes, outboundRouteUnits, outboundVirtualHosts } from './outbound.ts';
export { encodeVirtualHost, routeConfiguration } from './route-configuration.ts';
export { withSharedRetries } from './shared-retries.ts';
export { encodedVirtualHost, keptVirtualHosts } from './virtual-host-cache.ts';
