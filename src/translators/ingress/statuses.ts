/** The desired statuses of Ingresses: the addresses of the Service in front of the gateways, in the API's JSON form. */
import type { AnyResource, Resource, ResourceKey } from '../../resources/index.ts';

/** Kubernetes IngressLoadBalancerIngress. */
export interface IngressAddress {
  readonly ip?: string;
  readonly hostname?: string;
}

/** The desired status of an Ingress. */
export interface IngressStatus {
  readonly kind: 'Ingress';
  readonly namespace: string;
  readonly name: string;
  /** Empty while no address is known: the current status is kept then. */
  readonly status: { readonly loadBalancer?: { readonly ingress: readonly IngressAddress[] } };
}

/** The external addresses of a Service: those of its load balancer, else its external IPs. */
export function gatewayAddresses(service: AnyResource | undefined): readonly IngressAddress[] {
  if (service?.kind !== 'Service') return [];
  const { spec, status } = service.content;
  const assigned = (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) =>
    ip || hostname ? [{ ...(ip ? { ip } : {}), ...(hostname ? { hostname } : {}) }] : [],
  );
  return assigned.length > 0 ? assigned : (spec.externalIPs ?? []).map((ip) => ({ ip }));
}

/**
 * The statuses of served Ingresses, and which of them changed. They have no UID, because an object that is deleted and
 * created again under the same name has the same status.
 */
export class IngressStatusTable {
  readonly #served = new Map<ResourceKey, IngressStatus>();
  #addresses: readonly IngressAddress[] = [];
  #changed = new Set<ResourceKey>();

  get(key: ResourceKey): IngressStatus | undefined {
    const status = this.#served.get(key);
    if (status === undefined || this.#addresses.length === 0) return status;
    return { ...status, status: { loadBalancer: { ingress: this.#addresses } } };
  }

  /** @param ingress undefined when it is not served (any more) */
  set(key: ResourceKey, ingress: Resource<'Ingress'> | undefined): void {
    if (this.#served.has(key) === (ingress !== undefined)) return;
    this.#changed.add(key);
    if (ingress === undefined) {
      this.#served.delete(key);
      return;
    }
    const { namespace, name } = ingress.meta;
    this.#served.set(key, { kind: 'Ingress', namespace, name, status: {} });
  }

  setAddresses(addresses: readonly IngressAddress[]): void {
    if (JSON.stringify(addresses) === JSON.stringify(this.#addresses)) return;
    this.#addresses = addresses;
    for (const key of this.#served.keys()) this.#changed.add(key);
  }

  /** Keys whose desired status changed since the last call, or which have none any more. */
  takeChanges(): ReadonlySet<ResourceKey> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }
}
