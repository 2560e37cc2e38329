/**
 * Who owns an address that documents of several namespaces name: the Service whose virtual IP it is, the Pod that has
 * it, the node, or the API server. Endpoints, EndpointSlices and ServiceEntries can contain any address, so they do not
 * own addresses. The rules are in docs/tenants.md.
 */
import { type Resource, type ResourceKey, resourceKey } from '../../resources/index.ts';
import { type Groups, membersOf } from '../common/groups.ts';
import { addressId } from '../common/networks.ts';
import { decidesForAll, type OwnershipContext, ownCallersOnly } from '../services/ownership.ts';
import type { NameConflict, Service } from '../types/types.ts';
import { ADDRESS_READ, hasAddress } from '../workloads/workloads.ts';

export interface AddressIndexes {
  /** Address (`addressId`) → keys of the Pods that have it. */
  readonly podsByIp: Groups;
  /** The same for Services, nodes, Pods with `hostNetwork`, and documents of endpoints. */
  readonly addressOwners: Groups;
}

/** A result without the addresses or hosts that belong to others. */
interface Owned {
  readonly service: Service;
  readonly conflicts: readonly NameConflict[];
}

/**
 * A ServiceEntry's service without the addresses of other namespaces' Services and Pods, and of nodes: a listener on
 * such an address would intercept its connections. Adds the keys that it looks up to `reads`.
 */
export function withoutTakenAddresses(service: Service, indexes: AddressIndexes, reads: Set<string>): Owned {
  const conflicts: NameConflict[] = [];
  const addresses = service.addresses.filter((address) => {
    const owner = ownerOutside(address, service.namespace, indexes, reads);
    if (owner === undefined) return true;
    const message = `${service.source}: address ${address} belongs to ${owner}; the entry is ignored for this address`;
    conflicts.push({ resource: service.source, message });
    return false;
  });
  return conflicts.length === 0 ? { service, conflicts } : { service: { ...service, addresses }, conflicts };
}

/**
 * A ServiceEntry's service whose host may be another namespace's IP address: requests to the address carry it as their
 * host. The entry then applies to its own callers only. Adds the keys that it looks up to `reads`.
 */
export function withoutTakenHost(
  service: Service,
  indexes: AddressIndexes & OwnershipContext,
  reads: Set<string>,
): Owned {
  const { hostname, namespace, source } = service;
  const owner = ownerOutside(hostname, namespace, indexes, reads);
  if (owner === undefined || decidesForAll(namespace, indexes)) return { service, conflicts: [] };
  const message = `${source}: host ${hostname} belongs to ${owner}; the entry applies only to callers in ${namespace}`;
  return {
    service: { ...service, exportTo: ownCallersOnly(service.exportTo) },
    conflicts: [{ resource: source, message }],
  };
}

/**
 * Whether an endpoint's address belongs to another namespace than the service, or to a node. @param pod the workload at
 * the address, if known
 */
export function isAddressOfOthers(
  address: string,
  namespace: string,
  pod: Resource<'Pod'> | undefined,
  indexes: AddressIndexes,
  reads: Set<string>,
): boolean {
  // Clusters may use the same addresses: the Pod owns the address in this cluster, even if another cluster uses it as
  // well.
  if (pod?.meta.namespace === namespace && hasAddress(pod, address)) return false;
  return ownerOutside(address, namespace, indexes, reads) !== undefined;
}

/** The owner of an address. Adds the key that it looks up to `reads`. */
export function addressOwner(address: string, indexes: AddressIndexes, reads: Set<string>): ResourceKey | undefined {
  for (const { key } of ownersAt(addressId(address) ?? address, indexes, reads)) return key;
  return undefined;
}

/**
 * The owner of an address, unless `namespace` owns it: the first Service or Pod of another namespace that has it, or
 * the node. Clusters may use the same addresses; having an address in one cluster does not give it to a namespace in
 * another.
 */
function ownerOutside(
  address: string,
  namespace: string,
  indexes: AddressIndexes,
  reads: Set<string>,
): ResourceKey | undefined {
  const id = addressId(address);
  if (id === undefined) return undefined;
  for (const owner of ownersAt(id, indexes, reads)) if (owner.namespace !== namespace) return owner.key;
  return undefined;
}

interface AddressOwner {
  readonly key: ResourceKey;
  /** Undefined for a node, which belongs to no namespace. */
  readonly namespace: string | undefined;
}

function* ownersAt(
  id: string,
  { podsByIp, addressOwners }: AddressIndexes,
  reads: Set<string>,
): Generator<AddressOwner> {
  reads.add(`${ADDRESS_READ}${id}`);
  for (const key of membersOf(podsByIp, id)) yield { key, namespace: namespaceOfKey(key) };
  for (const key of membersOf(addressOwners, id)) {
    if (isEndpointsKey(key) && !isApiServerKey(key)) continue;
    // A Pod among these owners has `hostNetwork`.
    const ofNode = key.startsWith('Pod/') || key.startsWith('Node/');
    yield { key, namespace: ofNode ? undefined : namespaceOfKey(key) };
  }
}

function namespaceOfKey(key: ResourceKey): string | undefined {
  return key.split('/')[1];
}

function isEndpointsKey(key: ResourceKey): boolean {
  return key.startsWith('Endpoints/') || key.startsWith('EndpointSlice/');
}

const API_SERVER = (['Endpoints', 'EndpointSlice'] as const).map((kind) => resourceKey(kind, 'default', 'kubernetes'));

/** Whether these are the endpoints that an API server writes about itself, of the Service `kubernetes`. */
export function isApiServerKey(key: ResourceKey): boolean {
  return API_SERVER.some((own) => key === own || key.startsWith(`${own}/`));
}
