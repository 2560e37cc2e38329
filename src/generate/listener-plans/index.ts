/**
 * Plans which listeners and route configurations a part has, and which service gets a port that several services have.
 * Listeners, routes, clusters and endpoints are all generated from these plans, so that they are consistent.
 *
 * The outbound and inbound plans are made from services and a Sidecar's egress and ingress listeners, the gateway plan
 * from gateway servers, merged per port.
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
