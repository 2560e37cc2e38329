/** The types of what controllers write, and of what they read of the cluster. */
import type { StatusAccess, WantedStatus } from '../object-status/index.ts';
import type { Kind } from '../resources/index.ts';
import type { ServedListener } from '../translators/index.ts';

export { type Condition, recordsOf, type StatusFields } from '../object-status/index.ts';

export interface DesiredStatus extends WantedStatus {
  /** Of a Gateway: the listeners that its proxies have to acknowledge. */
  readonly listeners?: readonly ServedListener[];
}

/** By the key of the resource, `Kind/namespace/name`. */
export type DesiredStatuses = Pick<ReadonlyMap<string, DesiredStatus>, 'get'>;

/** Options of a controller that writes statuses. */
export interface StatusControllerOptions extends StatusAccess {
  /** The newest desired statuses, by key of the resource. */
  readonly desired: () => DesiredStatuses;
}

/** The group of the Gateway API. */
export const GATEWAY_GROUP = 'gateway.networking.k8s.io';

/** Kinds with a status that is written, as the store names them. */
export const STATUS_KINDS = [
  'GatewayClass',
  'KubernetesGateway',
  'HTTPRoute',
  'GRPCRoute',
  'TLSRoute',
  'TCPRoute',
  'BackendTLSPolicy',
] as const satisfies readonly Kind[];
