/** The desired statuses of Ingresses: the addresses of the Service in front of the gateways, in the API's JSON form. */
import type { AnyResource, Resource, ResourceKey } from '../../resources/index.ts';

/** Kubernetes IngressLoadBalancerIngress. */
export interface IngressAddress {
  readonly ip?: string;
  readonly hostname?: string;
}

/** What the status of an Ingress should say. */
export interface IngressStatus {
  readonly kind: 'Ingress';
  readonly namespace: string;
  readonly name: string;
  /** Empty while no address is known: what was written before stays. */
  readonly status: { readonly loadBalancer?: { readonly ingress: readonly IngressAddress[] } };
}

/** The addresses that a Service is reached at from outside: those of its load balancer, else its external addresses. */
export function gatewayAddresses(service: AnyResource | undefined): readonly IngressAddress[] {
  if (service?.kind !== 'Service') return [];
  const { spec, status } = service.content;
  const assigned = (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) =>
    ip || hostname ? [{ ...(ip ? { ip } : {}), ...(hostname ? { hostname } : {}) }] : [],
  );
  return assigned.length > 0 ? assigned : (spec.externalIPs ?? []).map((ip) => ({ ip }));
}

/**
 * Which Ingresses are served, at which addresses, and which of them changed. An object that was deleted and created
 * again under its name has the same status, so none names its uid.
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
