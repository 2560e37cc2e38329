/** What a service's clients have to know of the workloads behind it before they speak mutual TLS to them. */
import { compareText } from './order.ts';
import type { Endpoint, Service, ServicePeers } from './types.ts';

/**
 * The identities behind a service, and which of its ports take mutual TLS; undefined when neither is there. Identities count whether
 * their workloads take it or not: a destination rule may know better than labels, and switching it off is no news of who is there.
 */
export function peersOf({ namespace }: Service, endpoints: readonly Endpoint[]): ServicePeers | undefined {
  const accounts = new Set<string>();
  const ready = new Map<string, 'all' | 'some'>();
  const unready = new Set<string>();
  for (const { servicePort, tlsReady, serviceAccount, workload } of endpoints) {
    if (tlsReady) ready.set(servicePort, 'all');
    else unready.add(servicePort);
    if (tlsReady || serviceAccount !== '') accounts.add(`${workload?.namespace ?? namespace}/${serviceAccount}`);
  }
  if (accounts.size === 0) return undefined;
  for (const port of unready) if (ready.has(port)) ready.set(port, 'some');
  return {
    accounts: [...accounts].sort(compareText),
    ready: Object.fromEntries([...ready].sort(([a], [b]) => compareText(a, b))),
  };
}
