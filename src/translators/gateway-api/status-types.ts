/**
 * The statuses of objects of the Gateway API, in the API's own JSON form. They are desired statuses: their writer adds
 * `lastTransitionTime` (unchanged while a condition's `status` does not change) and keeps the entries of other
 * controllers.
 */
import type { ParentReference, ResourceKey, RouteGroupKind, ServiceApiKind } from '../../resources/index.ts';

export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  /** `metadata.generation` of the object; absent for objects without one, as in files. */
  readonly observedGeneration?: number;
}

export interface ListenerStatus {
  readonly name: string;
  readonly supportedKinds: readonly RouteGroupKind[];
  readonly attachedRoutes: number;
  readonly conditions: readonly Condition[];
}

export interface RouteParentStatus {
  readonly parentRef: ParentReference;
  readonly controllerName: string;
  readonly conditions: readonly Condition[];
}

export interface PolicyAncestorStatus {
  readonly ancestorRef: ParentReference;
  readonly controllerName: string;
  readonly conditions: readonly Condition[];
}

export interface StatusContent {
  readonly conditions?: readonly Condition[];
  /** Only for a GatewayClass. */
  readonly supportedFeatures?: readonly { readonly name: string }[];
  /** Only for a Gateway. */
  readonly addresses?: readonly { readonly type: string; readonly value: string }[];
  readonly listeners?: readonly ListenerStatus[];
  /** For routes: the entries of this controller. */
  readonly parents?: readonly RouteParentStatus[];
  /** For policies: the entries of this controller. */
  readonly ancestors?: readonly PolicyAncestorStatus[];
}

/** A listener of a Gateway that proxies get a configuration for. */
export interface ServedListener {
  readonly name: string;
  readonly port: number;
  /** A hash of everything that decides its configuration, except for routes. */
  readonly digest: string;
}

export interface DesiredStatus {
  readonly key: ResourceKey;
  readonly kind: ServiceApiKind;
  /** '' for a GatewayClass. */
  readonly namespace: string;
  readonly name: string;
  /** The UID of the translated object: an object of the same name with another UID is a different object. */
  readonly uid?: string;
  readonly generation?: number;
  readonly status: StatusContent;
  /** Of a Gateway: the listeners that its proxies have to acknowledge. */
  readonly listeners?: readonly ServedListener[];
}
