/**
 * Services by port and virtual services by host, each indexed once per list, which scopes share while it is unchanged,
 * and what rules of the policy component need.
 */

export {
  changedNeeds,
  changedPolicyTraffic,
  isPolicyKey,
  type PolicyNeeds,
  type PolicyTraffic,
  policyNamespaces,
  policyNeeds,
  policyTrafficOf,
} from './policy-traffic.ts';
export { type ServicePortEntry, servicesByPort } from './service-index.ts';
export { targetHosts, virtualServicesFor, virtualServicesForAny } from './virtual-services.ts';
