/** The types of what controllers write, and of what they read of the cluster. */

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

/** Fields of `status` in the form of the API. */
export type StatusFields = Readonly<Record<string, unknown>>;

export interface DesiredStatus {
  /** The name of the kind in the store: `KubernetesGateway` for Gateways. */
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** The UID of the object from which the status was computed. */
  readonly uid?: string;
  readonly generation?: number;
  readonly status: object;
  /** Of a Gateway: the listeners that its proxies have to acknowledge. */
  readonly listeners?: readonly ServedListener[];
}

/** By the key of the resource, `Kind/namespace/name`. */
export type DesiredStatuses = Pick<ReadonlyMap<string, DesiredStatus>, 'get'>;

/** Options of a controller that writes statuses. */
export interface StatusControllerOptions {
  readonly client: KubernetesClient;
  /** The namespaces whose objects are controlled; empty: all. Others may belong to another control plane. */
  readonly namespaces: readonly string[];
  /** The newest desired statuses, by key of the resource. */
  readonly desired: () => DesiredStatuses;
  /** Maximum rate of status writes, a second. */
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

/** The objects in a list; other items are left out. */
export function recordsOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
