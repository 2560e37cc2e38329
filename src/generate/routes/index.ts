/**
 * The route configurations of sidecars, and the parts that gateways use as well. Virtual services, services and the
 * catch-all become virtual hosts, which are encoded and cached while their inputs are unchanged; these become route
 * configurations, or separate resources (VHDS).
 */
export { weighted } from './actions/action.ts';
export { MAX_BODY_BYTES } from './actions/direct-response.ts';
export { withSharedRetries } from './actions/shared-retries.ts';
export { contextKey, MESH_GATEWAY, type RouteContext, routeFeatures, scopeLookups } from './context.ts';
export { destinationPort, weightedCluster } from './destination.ts';
export { cachedVirtualHosts, encodedVirtualHost } from './hosts/virtual-host-cache.ts';
export { defaultRoute, hasRoutes, joinRoutes, virtualServiceRoutes } from './http-route.ts';
export { appliesHere } from './match.ts';
export type { HashPolicy, HeaderMatcher, Route, RouteAction, RouteMatch, VirtualHostMessage } from './messages.ts';
export {
  discoveredUnits,
  outboundRoutes,
  outboundRouteUnits,
  outboundVirtualHosts,
  wantedVirtualHosts,
} from './outbound.ts';
export { encodeVirtualHost, routeConfiguration } from './route-configuration.ts';
