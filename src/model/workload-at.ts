/** The workload of a namespace at an address, as the registry knows it. */
import type { Resource } from '../resources/index.ts';
import { membersOf } from './groups.ts';
import { networkAddress } from './network-names.ts';
import { addressId } from './networks.ts';
import type { State } from './state.ts';
import { tableOf } from './tables.ts';
import type { RegisteredWorkload } from './types.ts';
import { podNetwork, podWorkload } from './workloads.ts';

/** Undefined: nothing of the namespace is known there. */
export function workloadAt(
  state: State,
  network: string,
  address: string,
  namespace: string,
): RegisteredWorkload | undefined {
  const instances = state.instances.get(networkAddress(network, address)) ?? [];
  const served = instances.find(({ service }) => state.services.get(service)?.namespace === namespace);
  if (served !== undefined) return served.endpoint;
  const pods = tableOf(state.resources, 'Pod');
  const isHere = (pod: Resource<'Pod'>) =>
    pod.meta.namespace === namespace && podNetwork(pod, address, state.networkOf) === network;
  const pod = membersOf(state.podsByIp, addressId(address) ?? address)
    .flatMap((key) => pods.get(key) ?? [])
    .find(isHere);
  if (pod === undefined) return undefined;
  const indexes = {
    ...state,
    resources: <K extends keyof typeof state.resources>(kind: K) => tableOf(state.resources, kind),
  };
  return podWorkload(pod, address, 'healthy', undefined, indexes, new Set());
}
