/** Computes the data about a service's workloads that clients need for mutual TLS. */
import { compareText } from '../common/order.ts';
import type { Endpoint, ServicePeers } from '../types/types.ts';

/** Counts of a service's endpoints, so that the cost of a change follows the changed endpoints. */
export interface PeerCounts {
  /** `namespace/serviceAccount` → endpoints. */
  readonly accounts: ReadonlyMap<string, number>;
  /** Service port name → endpoints that accept mutual TLS, and those that do not. */
  readonly ready: ReadonlyMap<string, number>;
  readonly unready: ReadonlyMap<string, number>;
}

export const NO_PEERS: PeerCounts = { accounts: new Map(), ready: new Map(), unready: new Map() };

/**
 * The counts after a change of endpoints. Identities count whether or not their workloads accept mutual TLS: a
 * destination rule may override the labels.
 */
export function countPeers(
  before: PeerCounts,
  namespace: string,
  { removed, added }: { readonly removed: ReadonlySet<Endpoint>; readonly added: readonly Endpoint[] },
): PeerCounts {
  if (removed.size === 0 && added.length === 0) return before;
  const [accounts, ready, unready] = [new Map(before.accounts), new Map(before.ready), new Map(before.unready)];
  const edit = ({ servicePort, tlsReady, serviceAccount, workload }: Endpoint, by: number): void => {
    count(tlsReady ? ready : unready, servicePort, by);
    if (tlsReady || serviceAccount !== '') count(accounts, `${workload?.namespace ?? namespace}/${serviceAccount}`, by);
  };
  for (const endpoint of removed) edit(endpoint, -1);
  for (const endpoint of added) edit(endpoint, 1);
  return { accounts, ready, unready };
}

function count(counts: Map<string, number>, key: string, by: number): void {
  const number = (counts.get(key) ?? 0) + by;
  if (number === 0) counts.delete(key);
  else counts.set(key, number);
}

/** The identities behind a service, and which of its ports accept mutual TLS; undefined without identities. */
export function peersOf({ accounts, ready, unready }: PeerCounts): ServicePeers | undefined {
  if (accounts.size === 0) return undefined;
  const ports = [...ready.keys()].sort(compareText);
  return {
    accounts: [...accounts.keys()].sort(compareText),
    ready: Object.fromEntries(ports.map((port) => [port, unready.has(port) ? 'some' : 'all'])),
  };
}
