/**
 * Whose a name is, where documents of several namespaces claim it. A host name below the mesh's own DNS domain belongs
 * to the namespace that it contains; a virtual IP belongs to the orchestrator Service that has it. What a namespace
 * says of names that are not its own holds for its own callers at most. The rules stand in docs/security-model.md.
 */
import type { PMap } from '../core/pmap.ts';
import { keyOf, type Resource, type ResourceKey } from '../resources/index.ts';
import { type Groups, membersOf } from './groups.ts';
import { type HeadlessAddresses, heldRanges } from './headless-addresses.ts';
import { isWildcardHost } from './hosts.ts';
import { addressId } from './networks.ts';
import { compareCreated } from './order.ts';
import type { ModelSettings, NameConflict, RegistryKind, Service } from './types.ts';
import { isPublic } from './visibility.ts';
import { ADDRESS_READ } from './workloads.ts';

/** Instead of a namespace: the host is a wildcard over names of several namespaces. */
const SEVERAL = '*';

type OwnershipSettings = Pick<ModelSettings, 'domain' | 'rootNamespace'>;

/**
 * The namespace that a host (lower case, possibly a wildcard) belongs to by its name: `web.shop.svc.cluster.local`,
 * `*.shop.svc.cluster.local` and `web.shop.svc` are of `shop`. {@link SEVERAL} for wildcards such as
 * `*.svc.cluster.local` and `*.local`; undefined for names outside of the mesh's domain, which belong to nobody in
 * particular.
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

/**
 * Whether what `namespace` says of a host may hold for callers of other namespaces. The root namespace may say it of
 * any host.
 */
export function mayClaimForOthers(host: string, namespace: string, settings: OwnershipSettings): boolean {
  const owner = namespaceOfHost(host, settings.domain);
  return owner === undefined || owner === namespace || namespace === settings.rootNamespace;
}

/**
 * `exportTo` (normalised) of a document about a name of another namespace: its own callers, if it is exported to them.
 */
export function ownCallersOnly(exportTo: readonly string[]): readonly string[] {
  return isPublic(exportTo) || exportTo.includes('.') ? ['.'] : ['~'];
}

/**
 * The services of one host name, in precedence order, that are in force: beside an orchestrator Service, no
 * ServiceEntry is.
 */
export function servicesInForce(services: readonly Service[]): readonly Service[] {
  return services[0]?.registry === 'Orchestrator'
    ? services.filter(({ registry }) => registry === 'Orchestrator')
    : services;
}

/** What those lose who claim a host name that is another's. `services` are all of the host, in precedence order. */
export function hostConflicts(services: readonly Service[], settings: OwnershipSettings): readonly NameConflict[] {
  const [first, ...others] = services;
  if (first === undefined || (others.length === 0 && first.registry === 'Orchestrator')) return [];
  const inForce = new Set(servicesInForce(services));
  const winner = services.find(({ exportTo }) => isPublic(exportTo)) ?? first;
  return services.flatMap((service): NameConflict[] => {
    const { hostname, source, namespace, registry } = service;
    const lost = (message: string) => [{ resource: source, message: `${source}: host ${hostname} ${message}` }];
    if (!inForce.has(service)) return lost(`belongs to ${first.source}, the entry does not count for it`);
    if (registry === 'External' && !mayClaimForOthers(hostname, namespace, settings)) {
      return lost(`is a name of another namespace, the entry counts for callers in ${namespace} alone`);
    }
    if (service === winner || !isPublic(service.exportTo)) return [];
    return lost(`belongs to ${winner.source}, which comes first, the entry counts for callers in ${namespace} alone`);
  });
}

/** Virtual IPs of an orchestrator Service, in the form of {@link addressId}. */
export function virtualIps(resource: Resource<'Service'> | undefined): readonly string[] {
  const { clusterIP, clusterIPs, type } = resource?.content.spec ?? {};
  if (type === 'ExternalName') return [];
  const written = clusterIPs ?? (clusterIP === undefined ? [] : [clusterIP]);
  return [...new Set(written.flatMap((address) => addressId(address) ?? []))];
}

/** Where it is found whose an address is. */
export interface AddressIndexes {
  /** Address (`addressId`) → keys of the Pods that have it. */
  readonly podsByIp: Groups;
  /** The same of the Services and documents of endpoints that it may belong to. */
  readonly addressOwners: Groups;
  readonly headlessAddresses: HeadlessAddresses;
  resources<K extends RegistryKind>(kind: K): PMap<Resource<K>>;
}

/**
 * A ServiceEntry's service without the addresses that are those of other namespaces' orchestrator Services, Pods and
 * endpoints: a listener there would take the connections to them. Adds what was looked up to `reads`.
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
    const message = `${service.source}: address ${address} belongs to ${owner}, the entry does not count for it`;
    conflicts.push({ resource: service.source, message });
    return false;
  });
  return conflicts.length === 0 ? { service, conflicts } : { service: { ...service, addresses }, conflicts };
}

/** The service with what of its ranges is held by others. Adds what was looked up to `reads`. */
export function withHeldRanges(service: Service, { headlessAddresses }: AddressIndexes, reads: Set<string>): Service {
  const held = heldRanges(service, headlessAddresses, reads);
  return held.length === 0 ? service : { ...service, heldRanges: held };
}

/**
 * Whose an address is, unless it is `namespace`'s own: the first of the Services and Pods of other namespaces that have
 * it. Clusters may have the same addresses, and nobody gets another one's by having it in some cluster. Where there is
 * none, Endpoints and EndpointSlices count, which anybody may write about any address: the oldest of them, so that
 * nobody gets an address by naming it too.
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

/** Hosts of a document that hold for its own callers alone. */
export function hostsForOwnCallers(
  hosts: readonly string[],
  namespace: string,
  settings: OwnershipSettings,
): readonly string[] {
  return hosts.filter((host) => !mayClaimForOthers(host, namespace, settings));
}
