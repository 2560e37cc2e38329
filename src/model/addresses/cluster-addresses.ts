/**
 * The addresses of services in other clusters. A Service that exists in several clusters has a virtual IP in each of
 * them, and a proxy needs that of its own cluster. If the service has no virtual IP in a cluster, proxies there use the
 * default addresses, which are those of the Service in force. Clusters may use the same addresses: a default address
 * that another Service has in the proxy's cluster does not belong to this service there.
 */
import type { Resource } from '../../resources/index.ts';
import { type CountedNames, nextNames } from '../common/counts.ts';
import { deepEqual } from '../common/equal.ts';
import { addTo, countWithPrefix, membersOf } from '../common/groups.ts';
import { addressId } from '../common/networks.ts';
import { compareText } from '../common/order.ts';
import type { DefinitionContext } from '../services/definitions.ts';
import { clusterIps, clustersOfAddress, countElsewhere, type RemoteVirtualIps } from '../services/virtual-ips.ts';
import type { Service } from '../types/types.ts';
import type { AddressIndexes } from './address-owners.ts';

/** What the addresses depend on in addition to the Services of one name. */
export interface ClusterAddressIndexes extends AddressIndexes, DefinitionContext {
  readonly remoteVirtualIps: RemoteVirtualIps;
}

/**
 * A service with its addresses in the clusters.
 * @param services the Services of its name in all clusters, the one in force first
 */
export function withClusterAddresses(
  service: Service,
  services: readonly Resource<'Service'>[],
  indexes: ClusterAddressIndexes,
): Service {
  const [inForce] = services;
  // Headless and external services are not reached by virtual IPs.
  if (inForce === undefined || indexes.remoteVirtualIps.clusters.size === 0 || service.resolution !== 'eds')
    return service;
  const written = clusterIps(inForce);
  // The addresses of service entries are the same in all clusters.
  const others = service.addresses.filter((address) => !written.includes(address));
  const virtual = new Map<string, readonly string[]>();
  for (const resource of services) {
    const addresses = clusterIps(resource);
    if (resource.meta.cluster !== undefined && addresses.length > 0) virtual.set(resource.meta.cluster, addresses);
  }
  const defaults =
    inForce.meta.cluster === undefined ? written : written.filter((address) => !isOfOwnCluster(address, indexes));
  for (const [cluster, taken] of takenAddresses(defaults, indexes)) {
    // Clusters that have an address for the service are known already: here another Service has the address.
    if (!virtual.has(cluster)) {
      virtual.set(
        cluster,
        defaults.filter((address) => !taken.has(address)),
      );
    }
  }
  const all = [...virtual].map(([cluster, addresses]) => ({ cluster, addresses: [...addresses, ...others] }));
  // A ServiceEntry may define the same service as a Service without virtual IPs: then all addresses are those of the
  // ServiceEntry.
  const shown = addressed(service, defaults.length === written.length ? service.addresses : [...defaults, ...others]);
  const different = all.filter(({ addresses }) => !isSame(addresses, shown.addresses));
  if (different.length === 0) return shown;
  return { ...shown, clusterAddresses: different.sort((a, b) => compareText(a.cluster, b.cluster)) };
}

/** Whether a Service of the program's own cluster has the address. */
function isOfOwnCluster(address: string, { addressOwners, remoteVirtualIps }: ClusterAddressIndexes): boolean {
  const id = addressId(address) ?? address;
  return countWithPrefix(membersOf(addressOwners, id), 'Service/') > countElsewhere(remoteVirtualIps, id);
}

/** The other clusters in which Services have some of the addresses, with these addresses. */
function takenAddresses(
  addresses: readonly string[],
  { remoteVirtualIps }: ClusterAddressIndexes,
): ReadonlyMap<string, ReadonlySet<string>> {
  const taken = new Map<string, Set<string>>();
  for (const address of addresses) {
    const clusters = clustersOfAddress(remoteVirtualIps, addressId(address) ?? address);
    for (const cluster of clusters) addTo(taken, cluster, address);
  }
  return taken;
}

export function addressed(service: Service, addresses: readonly string[]): Service {
  if (addresses === service.addresses) return service;
  return { ...service, addresses, ...(addresses.length === 0 && { unaddressed: true }) };
}

function isSame(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((address) => others.includes(address));
}

/**
 * The clusters whose proxies are the only ones affected by a change of a service; undefined if it affects others, too.
 */
export function clustersOfChange(
  before: Service | undefined,
  after: Service | undefined,
): ReadonlySet<string> | undefined {
  if (before?.clusterAddresses === undefined && after?.clusterAddresses === undefined) return undefined;
  if (before === undefined || after === undefined) return undefined;
  const [{ clusterAddresses: was = [], ...rest }, { clusterAddresses: is = [], ...next }] = [before, after];
  if (!deepEqual(rest, next)) return undefined;
  const clusters = new Set<string>();
  for (const [some, others] of [
    [was, is],
    [is, was],
  ] as const) {
    for (const one of some) {
      if (
        !deepEqual(
          others.find(({ cluster }) => cluster === one.cluster),
          one,
        )
      )
        clusters.add(one.cluster);
    }
  }
  return clusters;
}

const NO_CLUSTERS: ReadonlyMap<string, number> = new Map();

/** The clusters whose proxies use other addresses for some service, after services changed. */
export function nextAddressClusters(
  clusters: CountedNames,
  changes: Iterable<{ readonly before: Service | undefined; readonly after: Service | undefined }>,
): CountedNames {
  const moves: { before: ReadonlyMap<string, number>; after: ReadonlyMap<string, number> }[] = [];
  for (const { before, after } of changes) {
    if (before?.clusterAddresses === undefined && after?.clusterAddresses === undefined) continue;
    moves.push({ before: countsOf(before), after: countsOf(after) });
  }
  return moves.length === 0 ? clusters : nextNames(clusters, moves);
}

function countsOf(service: Service | undefined): ReadonlyMap<string, number> {
  if (service?.clusterAddresses === undefined) return NO_CLUSTERS;
  return new Map(service.clusterAddresses.map(({ cluster }) => [cluster, 1]));
}
