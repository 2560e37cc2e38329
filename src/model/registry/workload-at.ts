/** Finds the workload of a namespace at an address in the registry. */
import type { Resource } from '../../resources/index.ts';
import { membersOf } from '../common/groups.ts';
import { addressId } from '../common/networks.ts';
import { tableOf } from '../common/tables.ts';
import type { RegisteredWorkload } from '../types/types.ts';
import { networkAddress } from '../workloads/network-names.ts';
import { podNetwork, podWorkload } from '../workloads/workloads.ts';
import type { State } from './state.ts';

/** Undefined if no workload of the namespace is known there. */
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
