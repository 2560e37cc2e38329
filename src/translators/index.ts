/** Translators: documents of the mesh's own kinds, derived from those of other APIs. */
export { DerivedDocuments, deriveResource } from './derived.ts';
export {
  CONTROLLER_NAME,
  type Condition,
  type DesiredStatus,
  GATEWAY_NAME_LABEL,
  type GatewayApiOptions,
  GatewayApiTranslator,
  gatewayServiceName,
  type ListenerStatus,
  type PolicyAncestorStatus,
  type RouteParentStatus,
  type ServedListener,
  type StatusContent,
  SUPPORTED_FEATURES,
  UnservedTargets,
  type UnservedTargetsOptions,
} from './gateway-api/index.ts';
export {
  type IngressAddress,
  type IngressOptions,
  type IngressSettings,
  type IngressStatus,
  IngressTranslator,
} from './ingress/index.ts';
export type { Translator, TranslatorOptions } from './types.ts';
