/**
 * Services by port and virtual services by host, each indexed once per list, which scopes share while it is unchanged,
 * and what rules of the policy component need.
 */

export {
  changedPolicyTraffic,
  isPolicyKey,
  type PolicyTraffic,
  policyNamespaces,
  policyTrafficOf,
} from './policy-traffic.ts';
export { type ServicePortEntry, servicesByPort } from './service-index.ts';
export { targetHosts, virtualServicesFor, virtualServicesForAny } from './virtual-services.ts';
