/**
 * Who owns a name that documents of several namespaces use. A host name below the mesh's own DNS domain is owned by the
 * namespace that it contains; a virtual IP by the orchestrator Service that has it. A namespace's documents about names
 * of others apply to its own callers at most. The rules are in docs/security-model.md.
 */
import type { PMap } from '../core/pmap.ts';
import { keyOf, type MeshConfig, type Resource, type ResourceKey } from '../resources/index.ts';
import { type Groups, membersOf } from './groups.ts';
import { excludedRanges, type HeadlessAddresses } from './headless-addresses.ts';
import { isWildcardHost } from './hosts.ts';
import { addressId } from './networks.ts';
import { compareCreated } from './order.ts';
import type { ModelSettings, NameConflict, RegistryKind, Service } from './types.ts';
import { isPublic } from './visibility.ts';
import { ADDRESS_READ } from './workloads.ts';

/** In place of a namespace, for wildcards over names of several namespaces. */
const SEVERAL = '*';

/** What decides about names besides the documents. */
export interface OwnershipContext {
  readonly settings: Pick<ModelSettings, 'domain' | 'rootNamespace'>;
  readonly mesh: Pick<MeshConfig, 'trustedConfigNamespaces'>;
}

/**
 * Whether the documents of a namespace may decide for the callers of all namespaces: it is the root namespace, or the
 * operator trusts it.
 */
export function decidesForAll(namespace: string, { settings, mesh }: OwnershipContext): boolean {
  const { trustedConfigNamespaces: trusted } = mesh;
  return namespace === settings.rootNamespace || trusted.includes(namespace) || trusted.includes('*');
}

/**
 * The namespace that owns a host (lower case, possibly a wildcard) by its name: `shop` owns
 * `web.shop.svc.cluster.local`, `*.shop.svc.cluster.local` and `web.shop.svc`. {@link SEVERAL} for wildcards such as
 * `*.svc.cluster.local` and `*.local`; undefined for names outside the mesh's domain, which have no owner.
 */
function namespaceOfHost(host: string, domain: string): string | undefined {
  const wildcard = isWildcardHost(host);
  const suffix = wildcard ? host.slice(1) : host;
  for (const tail of [`.svc.${domain}`, '.svc']) {
    if (suffix.endsWith(tail)) {
      const labels = suffix.slice(0, -tail.length).split('.');
      // The first label of a wildcard may be the end of one: `*op.svc` covers names of every namespace that ends in
      // `op`.
      return wildcard && labels.length === 1 ? SEVERAL : labels.at(-1);
    }
    if (wildcard && tail.endsWith(suffix)) return SEVERAL;
  }
  return undefined;
}

/** Whether documents of `namespace` about a host may apply to callers of other namespaces. */
export function mayClaimForOthers(host: string, namespace: string, context: OwnershipContext): boolean {
  const owner = namespaceOfHost(host, context.settings.domain);
  return owner === undefined || owner === namespace || decidesForAll(namespace, context);
}

/**
 * The effective `exportTo` (normalised) of a document about a name of another namespace: its own callers, if it is
 * exported to them.
 */
export function ownCallersOnly(exportTo: readonly string[]): readonly string[] {
  return isPublic(exportTo) || exportTo.includes('.') ? ['.'] : ['~'];
}

/**
 * The services of one host name that are in force, in precedence order: no ServiceEntry is while there is an
 * orchestrator Service.
 */
export function servicesInForce(services: readonly Service[]): readonly Service[] {
  return services[0]?.registry === 'Orchestrator'
    ? services.filter(({ registry }) => registry === 'Orchestrator')
    : services;
}

/** The conflicts of services about one host name. `services` are all of the host, in precedence order. */
export function hostConflicts(services: readonly Service[], context: OwnershipContext): readonly NameConflict[] {
  const [first, ...others] = services;
  if (first === undefined || (others.length === 0 && first.registry === 'Orchestrator')) return [];
  const inForce = new Set(servicesInForce(services));
  const winner = services.find(({ exportTo }) => isPublic(exportTo)) ?? first;
  return services.flatMap((service): NameConflict[] => {
    const { hostname, source, namespace, registry } = service;
    const lost = (message: string) => [{ resource: source, message: `${source}: host ${hostname} ${message}` }];
    if (!inForce.has(service)) return lost(`belongs to ${first.source}; the entry is ignored for this host`);
    if (registry === 'External' && !mayClaimForOthers(hostname, namespace, context)) {
      return lost(`is a name of another namespace; the entry applies only to callers in ${namespace}`);
    }
    if (service === winner || !isPublic(service.exportTo)) return [];
    return lost(`belongs to ${winner.source}, which comes first; the entry applies only to callers in ${namespace}`);
  });
}

/** The indexes in which the owner of an address is looked up. */
export interface AddressIndexes {
  /** Address (`addressId`) → keys of the Pods that have it. */
  readonly podsByIp: Groups;
  /** The same for Services and documents of endpoints. */
  readonly addressOwners: Groups;
  readonly headlessAddresses: HeadlessAddresses;
  resources<K extends RegistryKind>(kind: K): PMap<Resource<K>>;
}

/**
 * A ServiceEntry's service without the addresses of other namespaces' orchestrator Services, Pods and endpoints: a
 * listener there would take connections to them. Adds the keys that it looks up to `reads`.
 */
export function withoutTakenAddresses(
  service: Service,
  indexes: AddressIndexes,
  reads: Set<string>,
): { readonly service: Service; readonly conflicts: readonly NameConflict[] } {
  const conflicts: NameConflict[] = [];
  const addresses = service.addresses.filter((address) => {
    const id = addressId(address);
    if (id === undefined) return true;
    reads.add(`${ADDRESS_READ}${id}`);
    const owners = [...membersOf(indexes.podsByIp, id), ...membersOf(indexes.addressOwners, id)];
    const owner = ownerOutside(service.namespace, owners, indexes);
    if (owner === undefined) return true;
    const message = `${service.source}: address ${address} belongs to ${owner}; the entry is ignored for this address`;
    conflicts.push({ resource: service.source, message });
    return false;
  });
  return conflicts.length === 0 ? { service, conflicts } : { service: { ...service, addresses }, conflicts };
}

/**
 * The Service or Pod that has an address. Documents of endpoints that name it do not count: everyone can write them.
 * Adds the key that it looks up to `reads`.
 */
export function orchestratorOwner(
  address: string,
  { podsByIp, addressOwners }: Pick<AddressIndexes, 'podsByIp' | 'addressOwners'>,
  reads: Set<string>,
): ResourceKey | undefined {
  const id = addressId(address) ?? address;
  reads.add(`${ADDRESS_READ}${id}`);
  return [...membersOf(podsByIp, id), ...membersOf(addressOwners, id)].find((key) => !isEndpointsKey(key));
}

/** The service with its excluded ranges. Adds the keys that it looks up to `reads`. */
export function withExcludedRanges(
  service: Service,
  { headlessAddresses }: AddressIndexes,
  reads: Set<string>,
): Service {
  const excluded = excludedRanges(service, headlessAddresses, reads);
  return excluded.length === 0 ? service : { ...service, excludedRanges: excluded };
}

/**
 * The owner of an address, unless `namespace` owns it: the first Service or Pod of another namespace that has it.
 * Clusters may use the same addresses; having an address in one cluster does not give it to a namespace in another.
 * Without Services and Pods, the oldest of the Endpoints and EndpointSlices with the address is its owner: everyone can
 * write those about any address, and a later one must not take it.
 */
function ownerOutside(
  namespace: string,
  owners: readonly ResourceKey[],
  { resources }: Pick<AddressIndexes, 'resources'>,
): ResourceKey | undefined {
  const isOwn = (key: ResourceKey) => key.split('/')[1] === namespace;
  const holders = owners.filter((key) => !isEndpointsKey(key));
  if (holders.length > 0) return holders.find((key) => !isOwn(key));
  const documents = owners.flatMap(
    (key) => resources('Endpoints').get(key) ?? resources('EndpointSlice').get(key) ?? [],
  );
  const [oldest] = documents.sort((a, b) => compareCreated(a.meta.created, b.meta.created));
  const key = oldest && keyOf(oldest);
  return key === undefined || isOwn(key) ? undefined : key;
}

function isEndpointsKey(key: ResourceKey): boolean {
  return key.startsWith('Endpoints/') || key.startsWith('EndpointSlice/');
}

/** Hosts of a document that apply to its own callers only. */
export function hostsForOwnCallers(
  hosts: readonly string[],
  namespace: string,
  context: OwnershipContext,
): readonly string[] {
  return hosts.filter((host) => !mayClaimForOthers(host, namespace, context));
}
