/**
 * Who may call the webhooks, by address: the API server of the program's own cluster comes first, and Pods come last.
 * The newest snapshot has the addresses of both.
 */
import { addressId, type Snapshot } from '../../model/index.ts';
import { resourceKey } from '../../resources/index.ts';
import type { CallerRank } from '../../webhooks/index.ts';

/** Each API server writes its addresses into the Endpoints and the EndpointSlice of this name. */
const [NAMESPACE, NAME] = ['default', 'kubernetes'] as const;

/** Agents through which API servers of managed clusters reach webhooks (konnectivity) are Pods of this namespace. */
const AGENT_NAMESPACE = 'kube-system';

export function callerRanks(engine: { readonly snapshot: Snapshot }): (address: string) => CallerRank {
  return (address) => {
    const { snapshot } = engine;
    const id = addressId(address);
    if (id === undefined) return 'unknown';
    if (apiServerAddresses(snapshot).some((each) => addressId(each) === id)) return 'api-server';
    return isPod(address, snapshot) ? 'pod' : 'unknown';
  };
}

function apiServerAddresses(snapshot: Snapshot): readonly string[] {
  const slice = snapshot.resources('EndpointSlice').get(resourceKey('EndpointSlice', NAMESPACE, NAME));
  const older = snapshot.resources('Endpoints').get(resourceKey('Endpoints', NAMESPACE, NAME));
  return [
    ...(slice?.content.endpoints ?? []).flatMap(({ addresses }) => addresses),
    ...(older?.content.subsets ?? []).flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip)),
  ];
}

/** Pods on the network of their node do not count, because they share its address. */
function isPod(address: string, snapshot: Snapshot): boolean {
  const pods = snapshot.resources('Pod');
  return snapshot.ownersOf(address).some((key) => {
    const pod = pods.get(key);
    if (pod === undefined || pod.content.spec?.hostNetwork === true) return false;
    return pod.meta.cluster === undefined && pod.meta.namespace !== AGENT_NAMESPACE;
  });
}
