/** What is written to the status of objects of an API server. */
import type { TokenBucket } from '../core/fairness/token-bucket.ts';
import type { Log } from '../core/log.ts';
import { isObject } from '../core/objects.ts';
import type { KubernetesClient } from '../kubernetes/index.ts';

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

export interface WantedStatus {
  /** The name of the kind in the store: `KubernetesGateway` for Gateways. */
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** The UID of the object from which the status was computed. */
  readonly uid?: string;
  readonly generation?: number;
  readonly status: object;
}

/** By the key of the object, `Kind/namespace/name`. */
export type WantedStatuses = Pick<ReadonlyMap<string, WantedStatus>, 'get'>;

/** What all controllers that write statuses need. */
export interface StatusAccess {
  readonly client: KubernetesClient;
  /** The namespaces whose objects are controlled; empty: all. Others may belong to another control plane. */
  readonly namespaces: readonly string[];
  /** Limits the writes of all controllers together (CTL_STATUS_QPS, CTL_STATUS_BURST). */
  readonly statusBudget: TokenBucket;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly statusLog: Log;
}

/** The objects in a list; other items are left out. */
export function recordsOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
