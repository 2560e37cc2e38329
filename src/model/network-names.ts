/**
 * The networks of a mesh: those that the configuration names and those that endpoints are in. Which of them a proxy is
 * in.
 */
import { PMap } from '../core/pmap.ts';
import type { MeshNetworks } from '../resources/index.ts';
import { addressId, type NetworkFinder } from './networks.ts';
import { type Counts, nextCounts } from './places.ts';
import type { ProxyPlace } from './types.ts';
import { NETWORK_LABEL } from './workloads.ts';

export interface NetworkNames {
  /** What the configuration names them in. */
  readonly configured: MeshNetworks;
  /** Network → number of services that have endpoints in it. */
  readonly counts: PMap<number>;
  /** The same object for as long as they are the same. */
  readonly all: ReadonlySet<string>;
}

export function configuredNetworks(configured: MeshNetworks): NetworkNames {
  return { configured, counts: PMap.empty(), all: namesOf(configured, PMap.empty()) };
}

function namesOf(configured: MeshNetworks, counts: PMap<number>): ReadonlySet<string> {
  return new Set([...Object.keys(configured.networks), ...counts.keys()].sort());
}

/** The networks after services have gone from some to others, or the configuration changed. */
export function nextNetworkNames(
  before: NetworkNames,
  configured: MeshNetworks,
  moves: Iterable<{ readonly before: Counts; readonly after: Counts }>,
): NetworkNames {
  const counts = nextCounts(before.counts, moves);
  if (counts === before.counts && configured === before.configured) return before;
  // Mostly services only come to networks, or go from some, in which there are others: then the names need not be
  // gathered again.
  const isSame = (name: string): boolean => counts.has(name) === before.counts.has(name);
  if (configured === before.configured && counts.changedKeys(before.counts).every(isSame)) return { ...before, counts };
  const all = namesOf(configured, counts);
  const same = all.size === before.all.size && all.isSubsetOf(before.all);
  return { configured, counts, all: same ? before.all : all };
}

/** The networks that a proxy says it is in, the first of which counts that is one of the mesh. */
export function networksSaidBy({ network, labels }: ProxyPlace): readonly string[] {
  return [network, labels[NETWORK_LABEL] ?? ''].filter((said) => said !== '');
}

/**
 * The network in which a proxy has an address: what it says itself, else its label. Names that are no network of the
 * mesh say nothing: proxies may name one where the configuration of the mesh knows none. A proxy that says nothing is
 * where the program's own cluster has the address.
 */
export function networkOfProxy(
  proxy: ProxyPlace,
  address: string,
  { all }: NetworkNames,
  networkOf: NetworkFinder,
): string {
  return networksSaidBy(proxy).find((said) => all.has(said)) ?? networkOf(address, undefined);
}

/**
 * Key of an address in a network: addresses of different networks may be equal. All ways to write an IPv6 address give
 * the same key.
 */
export function networkAddress(network: string, address: string): string {
  // IPv4 addresses are written in one way only.
  const id = address.includes(':') ? (addressId(address) ?? address) : address;
  return `${network}/${id}`;
}

/** The address of a key that {@link networkAddress} made, in the form of `addressId`: that has no slash. */
export function addressOfKey(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}
