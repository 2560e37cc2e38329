/** The gateways through which a proxy reaches those endpoints of a service that are in other networks. */
import type { Memos } from '../../core/memo.ts';
import type { Endpoint, NetworkGateway, NetworkGateways } from '../../model/index.ts';
import type { MeshNetworks } from '../../resources/index.ts';
import { hasFamilyOf, type OnFamilies } from '../common/index.ts';
import type { NodeFamilies } from '../views.ts';

const NONE: ReadonlySet<string> = new Set();
const NO_GATEWAYS: NetworkGateways = new Map();

/** The networks with configured gateways, whether or not an address of these is known. */
export function separateNetworks(memos: Memos, networks: MeshNetworks): ReadonlySet<string> {
  return memos.weak<MeshNetworks, ReadonlySet<string>>('networks with gateways').get(networks, () => {
    const found = Object.entries(networks.networks).filter(([, { gateways }]) => gateways.length > 0);
    return found.length === 0 ? NONE : new Set(found.map(([name]) => name));
  });
}

/** The networks with gateways that these endpoints are in. */
export function networksOf(memos: Memos, networks: MeshNetworks, endpoints: readonly Endpoint[]): ReadonlySet<string> {
  const separate = separateNetworks(memos, networks);
  if (separate.size === 0) return NONE;
  const memo = memos.pairs<MeshNetworks, readonly Endpoint[], ReadonlySet<string>>('networks of endpoints');
  return memo.get(networks, endpoints, () => {
    const found = new Set<string>();
    for (const { network } of endpoints) if (separate.has(network)) found.add(network);
    return found.size === 0 ? NONE : found;
  });
}

/**
 * The gateways of the networks that the endpoints are in, for nodes of some address families: one object for equal
 * arguments. A gateway may have addresses of both families. If no gateway has an address of the node's family, the node
 * gets all of them, because it may use address translation (NAT64).
 */
export function gatewaysFor(
  memos: Memos,
  all: NetworkGateways,
  networks: ReadonlySet<string>,
  node: OnFamilies,
): NetworkGateways {
  if (networks.size === 0) return NO_GATEWAYS;
  const known = memos
    .pairs<NetworkGateways, ReadonlySet<string>, Map<NodeFamilies, NetworkGateways>>('gateways of networks')
    .get(all, networks, () => new Map());
  const gateways =
    known.get(node.families) ?? new Map([...networks].sort().map((name) => [name, usable(all.get(name), node)]));
  known.set(node.families, gateways);
  return gateways;
}

function usable(gateways: readonly NetworkGateway[] = [], node: OnFamilies): readonly NetworkGateway[] {
  const reachable = gateways.filter(({ address }) => hasFamilyOf(node, address));
  return reachable.length === 0 ? gateways : reachable;
}

/** The gateways as a string, for keys: '' when there are none. */
export function digestOf(memos: Memos, gateways: NetworkGateways): string {
  if (gateways.size === 0) return '';
  return memos.weak<NetworkGateways, string>('digests of gateways').get(gateways, () => JSON.stringify([...gateways]));
}
