/**
 * Door of routes: the route configurations of sidecars.
 *
 *   virtual services ─┐
 *   services ─────────┼─▶ virtual hosts (encoded, kept while what they are made of stays) ─▶ route configurations
 *   catch-all ────────┘                                                                └─▶ or resources of their own (VHDS)
 *
 * Gateways build their routes from the same parts (`http-route.ts`, `virtual-host-cache.ts`).
 */
export { discoveredUnits, outboundRoutes, outboundRouteUnits, outboundVirtualHosts } from './outbound.ts';
