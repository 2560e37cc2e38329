/** The networks of a mesh, which the configuration or endpoints name, and the network of a proxy. */
import { PMap } from '../../core/pmap.ts';
import type { MeshNetworks } from '../../resources/index.ts';
import { type Counts, nextCounts } from '../common/counts.ts';
import { addressId, type NetworkFinder, networkOfRegistry } from '../common/networks.ts';
import type { ProxyNetwork } from '../types/types.ts';
import { NETWORK_LABEL } from './workloads.ts';

export interface NetworkNames {
  readonly configured: MeshNetworks;
  /** Network → number of services that have endpoints in it. */
  readonly counts: PMap<number>;
  /** The same object until they change. */
  readonly all: ReadonlySet<string>;
}

export function configuredNetworks(configured: MeshNetworks): NetworkNames {
  return { configured, counts: PMap.empty(), all: namesOf(configured, PMap.empty()) };
}

function namesOf(configured: MeshNetworks, counts: PMap<number>): ReadonlySet<string> {
  return new Set([...Object.keys(configured.networks), ...counts.keys()].sort());
}

/** The networks after services moved between networks, or the configuration changed. */
export function nextNetworkNames(
  before: NetworkNames,
  configured: MeshNetworks,
  moves: Iterable<{ readonly before: Counts; readonly after: Counts }>,
): NetworkNames {
  const counts = nextCounts(before.counts, moves);
  if (counts === before.counts && configured === before.configured) return before;
  // Usually the former networks of moved services still have other services: the names are then unchanged.
  const isSame = (name: string): boolean => counts.has(name) === before.counts.has(name);
  if (configured === before.configured && counts.changedKeys(before.counts).every(isSame)) return { ...before, counts };
  const all = namesOf(configured, counts);
  const same = all.size === before.all.size && all.isSubsetOf(before.all);
  return { configured, counts, all: same ? before.all : all };
}

/** The networks that a proxy states; the first one that is a network of the mesh is used. */
export function statedNetworks({ network, labels }: ProxyNetwork): readonly string[] {
  return [network, labels[NETWORK_LABEL] ?? ''].filter((name) => name !== '');
}

/**
 * The network of a proxy at an address: the one that it states, else that of its label. Names that are not networks of
 * the mesh are ignored, because proxies may state one in a mesh without networks. Otherwise it is the network that
 * names the registry of the proxy's cluster, else the network of the address in the program's own cluster.
 */
export function networkOfProxy(
  proxy: ProxyNetwork,
  address: string,
  { all, configured }: NetworkNames,
  networkOf: NetworkFinder,
): string {
  return (
    statedNetworks(proxy).find((name) => all.has(name)) ??
    networkOfRegistry(configured, proxy.clusterId) ??
    networkOf(address, undefined)
  );
}

/**
 * Key of an address in a network: addresses of different networks may be equal. All notations of an IPv6 address result
 * in the same key.
 */
export function networkAddress(network: string, address: string): string {
  // IPv4 addresses have only one notation.
  const id = address.includes(':') ? (addressId(address) ?? address) : address;
  return `${network}/${id}`;
}

/** The address in a key of {@link networkAddress}, in the form of `addressId`, which has no slash. */
export function addressOfKey(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}
