/**
 * Services by port and virtual services by host, each indexed once per list, which the next scope shares when it is
 * unchanged.
 */

export { type ServicePortEntry, servicesByPort } from './service-index.ts';
export { targetHosts, virtualServicesFor, virtualServicesForAny } from './virtual-services.ts';
