/** The Gateway API: its kinds as documents of the mesh, and the statuses of its objects. */
export { SUPPORTED_FEATURES } from './features.ts';
export { GATEWAY_NAME_LABEL } from './routes/served-hosts.ts';
export type {
  Condition,
  DesiredStatus,
  ListenerStatus,
  PolicyAncestorStatus,
  RouteParentStatus,
  ServedListener,
  StatusContent,
} from './status-types.ts';
export { gatewayServiceName } from './statuses/gateway-status.ts';
export { CONTROLLER_NAME, type GatewayApiOptions, GatewayApiTranslator } from './translator.ts';
export { UnservedTargets, type UnservedTargetsOptions } from './unserved-targets.ts';
