/** Services with the addresses that some proxies use: those of their cluster, and allocated ones. */
import type { Memos } from '../../core/memo.ts';
import type { PMap } from '../../core/pmap.ts';
import type { Service } from '../types/types.ts';
import { addressed } from './cluster-addresses.ts';

/** Which addresses of services a proxy uses. */
export interface Addressing {
  /** The cluster with other addresses; absent for the addresses of the local cluster. */
  readonly cluster?: string;
  /** The address families of allocated addresses; absent: none are used. */
  readonly allocated?: 'ipv4' | 'ipv6' | 'dual';
}

/** The service with the addresses for these proxies: the same object if these are the default addresses. */
export function serviceFor(memos: Memos, service: Service, addressing: Addressing): Service {
  if (service.clusterAddresses === undefined && service.allocatedAddresses === undefined) return service;
  const known = memos
    .weak<Service, Map<string, Service>>('services with other addresses')
    .get(service, () => new Map());
  const key = addressingKey(addressing);
  const found = known.get(key) ?? withAddresses(service, addressing);
  known.set(key, found);
  return found;
}

function withAddresses(service: Service, { cluster, allocated }: Addressing): Service {
  const { clusterAddresses, allocatedAddresses, unaddressed, ...rest } = service;
  const ofCluster = clusterAddresses?.find((each) => each.cluster === cluster)?.addresses;
  const ofHost = allocated && allocatedAddresses?.filter((address) => isOfFamily(address, allocated));
  const addresses = ofCluster ?? ofHost;
  return addresses === undefined ? service : addressed(rest, addresses);
}

function isOfFamily(address: string, allocated: 'ipv4' | 'ipv6' | 'dual'): boolean {
  return allocated === 'dual' || address.includes(':') === (allocated === 'ipv6');
}

type Part = ReadonlyMap<string, Service>;

/** The services of a scope with the addresses for these proxies: the same object if all have the default addresses. */
export function servicesFor(memos: Memos, services: PMap<Service>, addressing: Addressing): PMap<Service> {
  const known = memos
    .weak<PMap<Service>, Map<string, PMap<Service>>>('services of scopes with other addresses')
    .get(services, () => new Map());
  const key = addressingKey(addressing);
  let found = known.get(key);
  if (found === undefined) {
    // Most parts of a scope do not change, and are shared with other scopes.
    const parts = memos.weak<Part, Map<string, Part>>('parts of scopes with other addresses');
    found = services.mapped(
      (service) => serviceFor(memos, service, addressing),
      (part, map) => {
        const mapped = parts.get(part, () => new Map());
        const result = mapped.get(key) ?? map();
        mapped.set(key, result);
        return result;
      },
    );
    known.set(key, found);
  }
  return found;
}

/** Equal for equal addressing. A cluster may have any name. */
export function addressingKey({ cluster, allocated }: Addressing): string {
  return `${allocated ?? ''} ${cluster ?? ''}`;
}
