/** Services by port and virtual services by host, each indexed once per list, which the next scope shares when it is unchanged. */
export { virtualServicesFor } from './host-index.ts';
export { destinationsOf, targetHosts } from './route-targets.ts';
export { type ServicePortEntry, servicesByPort } from './service-index.ts';
