/** Services by port and virtual services by host, each indexed once per list, which the next scope shares when it is unchanged. */

export { type ServicePortEntry, servicesByPort } from './service-index.ts';
export { targetHosts, virtualServicesAbout, virtualServicesFor } from './virtual-services.ts';
