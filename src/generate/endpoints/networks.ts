/** Gateways through which the networks of a mesh are reached from other networks. */
import type { Memos } from '../../core/memo.ts';
import type { MeshNetworks } from '../../resources/index.ts';
import { isIpAddress } from '../common/index.ts';

export interface NetworkGateway {
  readonly address: string;
  readonly port: number;
}

interface NetworkGateways {
  /** Network → its gateways, never an empty list. Networks without a known gateway are reached directly. */
  readonly byNetwork: ReadonlyMap<string, readonly NetworkGateway[]>;
  /** All of it as text, for keys: '' when there is none. */
  readonly digest: string;
}

/** The gateways of all networks; computed once per networks configuration. */
export function networkGateways(memos: Memos, networks: MeshNetworks): NetworkGateways {
  return memos.weak<MeshNetworks, NetworkGateways>('gateways of networks').get(networks, () => gatewaysOf(networks));
}

function gatewaysOf(networks: MeshNetworks): NetworkGateways {
  const byNetwork = new Map<string, readonly NetworkGateway[]>();
  for (const name of Object.keys(networks.networks).sort()) {
    const gateways: NetworkGateway[] = [];
    for (const { address, port } of networks.networks[name]?.gateways ?? []) {
      // EDS accepts no host names.
      if (address !== undefined && isIpAddress(address)) gateways.push({ address, port });
    }
    if (gateways.length > 0) byNetwork.set(name, gateways);
  }
  return { byNetwork, digest: byNetwork.size === 0 ? '' : JSON.stringify([...byNetwork]) };
}
