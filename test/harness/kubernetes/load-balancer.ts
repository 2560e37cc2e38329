/**
 * A simulated load balancer of a cloud: gives every Service of the type LoadBalancer the address of a ready Pod that it
 * selects, at which all ports of the Service are reached. A Service that asks for an address (`loadBalancerIP`) gets
 * this one if it is of the pool, else none.
 */
import type { Owner } from '../owner.ts';
import type { ApiObject, KubernetesApi } from './api.ts';
import { startController } from './controller.ts';
import { reportedErrors } from './recent-errors.ts';
import { keyOf, watchCollection } from './watch.ts';

export interface LoadBalancerOptions {
  /** As cluster admin. */
  readonly api: KubernetesApi;
  /** Addresses that Services may ask for. */
  readonly pool?: readonly string[];
}

interface Service extends ApiObject {
  readonly spec: {
    readonly type?: string;
    readonly selector?: Readonly<Record<string, string>>;
    readonly loadBalancerIP?: string;
  };
  readonly status?: { readonly loadBalancer?: { readonly ingress?: readonly { readonly ip: string }[] } };
}

interface PodStatus {
  readonly podIP?: string;
  readonly conditions?: readonly { readonly type: string; readonly status: string }[];
}

function readyAddress(pod: ApiObject): string | undefined {
  const { podIP, conditions = [] } = (pod.status ?? {}) as PodStatus;
  const ready = conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
  return ready && pod.metadata.deletionTimestamp === undefined ? podIP : undefined;
}

/** Runs until its owner ends. */
export function startLoadBalancer(owner: Owner, { api, pool = [] }: LoadBalancerOptions): void {
  const pods = new Map<string, ApiObject>();

  const addressOf = ({ metadata, spec }: Service): string | undefined => {
    const { selector, loadBalancerIP: asked } = spec;
    if (selector === undefined) return undefined;
    if (asked !== undefined) return pool.includes(asked) ? asked : undefined;
    for (const pod of pods.values()) {
      const labels = (pod.metadata.labels ?? {}) as Record<string, string>;
      const selected = Object.entries(selector).every(([name, value]) => labels[name] === value);
      const address = selected && pod.metadata.namespace === metadata.namespace ? readyAddress(pod) : undefined;
      if (address !== undefined) return address;
    }
    return undefined;
  };
  const reconcile = async (service: Service | undefined): Promise<void> => {
    if (service?.spec.type !== 'LoadBalancer') return;
    const address = addressOf(service);
    const [present] = service.status?.loadBalancer?.ingress ?? [];
    if (address === present?.ip) return;
    const ingress = address === undefined ? [] : [{ ip: address }];
    const reference = { ...service, apiVersion: 'v1', kind: 'Service' };
    await api.patch(reference, { status: { loadBalancer: { ingress } } }, 'status');
  };
  const services = startController(owner, {
    api,
    path: '/api/v1/services',
    errors: reportedErrors(owner, 'load balancer'),
    reconcile: (_, service) => reconcile(service as Service | undefined),
  });
  watchCollection(owner, api, '/api/v1/pods', {
    changed: (object) => {
      const before = pods.get(keyOf(object));
      pods.set(keyOf(object), object);
      if (before === undefined || readyAddress(before) !== readyAddress(object)) services.again();
    },
    gone: (key) => {
      pods.delete(key);
      services.again();
    },
  });
}
