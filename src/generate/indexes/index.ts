/**
 * Services by port and virtual services by host, each indexed once per list, which scopes share while it is unchanged.
 */

export { type ServicePortEntry, servicesByPort } from './service-index.ts';
export { targetHosts, virtualServicesFor, virtualServicesForAny } from './virtual-services.ts';
