/** What controllers write, and what they see of the cluster. */

import type { Log } from '../core/log.ts';
import { isObject } from '../core/objects.ts';
import type { KubernetesClient } from '../kubernetes/index.ts';
import type { Kind } from '../resources/index.ts';
import type { ServedListener } from '../translators/index.ts';

/** A condition without the time of its last change (Kubernetes Condition). */
export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
}

/** Fields of `status` as the API has them. */
export type StatusFields = Readonly<Record<string, unknown>>;

/** The status that an object is to have. */
export interface DesiredStatus {
  /** As the store names kinds: that of a Gateway is `KubernetesGateway`. */
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** Of the object that the status was computed from. */
  readonly uid?: string;
  readonly generation?: number;
  readonly status: object;
  /** Of a Gateway: the listeners that its proxies have to acknowledge. */
  readonly listeners?: readonly ServedListener[];
}

/** By key of the resource: `Kind/namespace/name`. */
export type DesiredStatuses = Pick<ReadonlyMap<string, DesiredStatus>, 'get'>;

/** Of a controller that writes statuses. */
export interface StatusControllerOptions {
  readonly client: KubernetesClient;
  /** The namespaces whose objects are controlled; empty: all. Others may belong to another control plane. */
  readonly namespaces: readonly string[];
  /** The newest desired statuses, by key of the resource. */
  readonly desired: () => DesiredStatuses;
  /** Status writes a second, and how many at once. */
  readonly statusQps: number;
  readonly statusBurst: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly statusLog: Log;
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

/** The objects of a list, without whatever else it contains. */
export function recordsOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
