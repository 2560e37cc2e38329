/**
 * Which listeners and route configurations a part has, and which service gets a port that several have. Listeners,
 * routes, clusters and endpoints are all generated from these plans, so that they agree.
 *
 * Services and a Sidecar's egress and ingress listeners give the outbound and the inbound plan. Gateway servers, merged
 * per port, give the gateway plan.
 */
export { addressesOf, isUnspecified } from './bind-addresses.ts';
export { type GatewayPlan, gatewayPlan, type ListenerPlan } from './gateway-plan.ts';
export { passesOn, type ServerPlan } from './gateway-servers.ts';
export { type InboundPlan, type InboundPortPlan, inboundPlan, ingressProtocol } from './inbound-plan.ts';
export { plannedPorts, plannedRoutes, portPlan, routePlan } from './outbound-plan.ts';
export { covers, isPassedOn } from './passed-on.ts';
export type {
  HttpTarget,
  OutboundListenerPlan,
  OutboundPortPlan,
  OutboundRoutePlan,
  PodTarget,
  TcpTarget,
} from './plan-types.ts';
export { ownerOfRange } from './range-owner.ts';
