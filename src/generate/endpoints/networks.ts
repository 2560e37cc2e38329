/** Gateways through which the networks of a mesh are reached from other networks. */
import type { Memos } from '../../core/memo.ts';
import type { MeshNetworks } from '../../resources/index.ts';
import { isIpAddress } from '../common/index.ts';

export interface NetworkGateway {
  readonly address: string;
  readonly port: number;
}

interface NetworkGateways {
  /**
   * Network → its gateways, none where they are not known: then nothing in the network is reached from others. Networks
   * for which no gateway is written are absent, and reached directly.
   */
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
    const written = networks.networks[name]?.gateways ?? [];
    // EDS accepts no host names.
    const known = written.flatMap(({ address, port }) =>
      address !== undefined && isIpAddress(address) ? [{ address, port }] : [],
    );
    if (written.length > 0) byNetwork.set(name, known);
  }
  return { byNetwork, digest: byNetwork.size === 0 ? '' : JSON.stringify([...byNetwork]) };
}
