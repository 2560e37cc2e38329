/**
 * gRPC applications that speak xDS themselves ("proxyless"): listeners, routes and clusters of their clients, and
 * listeners of their servers. The units of the clients' part are hosts, for all types.
 */
export { clientClusters } from './clusters.ts';
export { clientListeners, clientUnits } from './listeners.ts';
export { clientRoutes } from './routes.ts';
export { serverListeners, serverUnits } from './servers.ts';
