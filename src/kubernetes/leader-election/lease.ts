/** One Lease of an API server (coordination.k8s.io/v1): read, written and watched for a leader election. */
import { createFailureLog, type Log } from '../../core/log.ts';
import { ApiError } from '../api-error.ts';
import type { KubernetesClient } from '../client.ts';
import { Informer } from '../informer/informer.ts';
import { type KubernetesObject, v1Type } from '../objects.ts';

/** Fields of a Lease's spec that are written; others are kept as they are. */
export interface LeaseSpec {
  readonly holderIdentity: string;
  readonly leaseDurationSeconds: number;
  /** MicroTime, such as `2026-01-31T12:00:00.000000Z`. For information only: replicas do not use it. */
  readonly acquireTime: string;
  readonly renewTime: string;
  /** How often the holder of the Lease has changed. */
  readonly leaseTransitions: number;
}

export interface Lease {
  /** The version for optimistic concurrency: a write is refused if the Lease has changed since. */
  readonly version: string;
  /** Fields of a wrong type, after a manual edit, have values that delay the takeover. */
  readonly spec: LeaseSpec;
  readonly object: KubernetesObject;
}

/** All methods that return promises reject with CtlError, after a limited time. */
export interface LeaseAccess {
  /** Namespace and name, for messages. */
  readonly name: string;
  /** Undefined: the Lease does not exist. */
  read(): Promise<Lease | undefined>;
  create(spec: LeaseSpec): Promise<Lease>;
  /** Rejects with ApiError 409 when the Lease has changed since `lease` was read, and 404 when it was deleted. */
  replace(lease: Lease, spec: LeaseSpec): Promise<Lease>;
  /** Notifies of the Lease and of its changes until the returned function is called. Versions can arrive late. */
  watch(onLease: (lease: Lease | undefined) => void): () => Promise<void>;
}

export interface LeaseAccessOptions {
  readonly client: KubernetesClient;
  readonly namespace: string;
  readonly name: string;
  readonly log: Log;
}

/** Time limit of a request, ms: a leader has time for several requests to renew its Lease. */
const REQUEST_TIMEOUT_MS = 4000;

export const LEASES = v1Type('coordination.k8s.io', 'Lease', 'leases');

export function createLeaseAccess({ client, namespace, name, log }: LeaseAccessOptions): LeaseAccess {
  const options = { namespace, timeoutMs: REQUEST_TIMEOUT_MS };
  return {
    name: `${namespace}/${name}`,
    async read() {
      try {
        return leaseOf(await client.get(LEASES, name, options));
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return undefined;
        throw error;
      }
    },
    async create(spec) {
      return leaseOf(await client.create(LEASES, { metadata: { name, namespace }, spec }, options));
    },
    async replace({ object, version }, spec) {
      const metadata = { ...object.metadata, resourceVersion: version };
      const written = { ...object, metadata, spec: { ...fieldsOf(object.spec), ...spec } };
      return leaseOf(await client.update(LEASES, name, written, options));
    },
    watch(onLease) {
      const failures = createFailureLog(
        log,
        `Lease ${namespace}/${name} cannot be watched, so a change of the leader is noticed late`,
        `Lease ${namespace}/${name} can be watched again`,
      );
      const informer = new Informer<Lease>({
        connection: client.connection,
        type: LEASES,
        namespace,
        name,
        convert: leaseOf,
        onChange: (changes) => {
          if (changes.length === 0) onLease(undefined);
          for (const { after } of changes) onLease(after);
        },
        failures,
      });
      informer.start();
      return () => informer.close();
    },
  };
}

/** Epoch ms as a MicroTime of the API. */
export function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace('Z', '000Z');
}

function leaseOf(object: KubernetesObject): Lease {
  const { holderIdentity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions } = fieldsOf(object.spec);
  const text = (value: unknown): string => (typeof value === 'string' ? value : '');
  const spec: LeaseSpec = {
    holderIdentity: text(holderIdentity),
    leaseDurationSeconds: typeof leaseDurationSeconds === 'number' ? leaseDurationSeconds : Number.POSITIVE_INFINITY,
    acquireTime: text(acquireTime),
    renewTime: text(renewTime),
    leaseTransitions: typeof leaseTransitions === 'number' ? leaseTransitions : 0,
  };
  return { version: object.metadata.resourceVersion ?? '', spec, object };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
