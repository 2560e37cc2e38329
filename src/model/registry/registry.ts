/**
 * The registry stage of a change, which only the main thread runs: from resources to services, endpoints and workloads,
 * in steps, each of which only processes what the previous step found to be changed. The parts that generation reads
 * are the input of the mesh stage (`mesh.ts`).
 */
import type { Slices } from '../../core/slices.ts';
import type { AnyResource, MeshUpdate, Resource, ResourceChange, ResourceKey } from '../../resources/index.ts';
import { networksWithOtherGateways, nextNetworkGateways } from '../addresses/network-gateways.ts';
import { deepEqual } from '../common/equal.ts';
import { membersOf } from '../common/groups.ts';
import { addressId, networkFinder } from '../common/networks.ts';
import { ofKind, storeResources, tableOf } from '../common/tables.ts';
import { updatePeerPolicies } from '../policies/peer-authentication.ts';
import { changedConfigs } from '../rules/configs.ts';
import { newConflicts } from '../rules/conflicts.ts';
import { carriesEndpoints } from '../rules/mesh-state.ts';
import type { ChangeSet, Endpoint, MeshDelta, ServiceKey } from '../types/types.ts';
import { addressOfKey, networkAddress } from '../workloads/network-names.ts';
import { updateRegistered } from '../workloads/registered-workloads.ts';
import { ownAddresses, podNetwork } from '../workloads/workloads.ts';
import { changedWorkloads } from '../workloads/workloads-of-proxies.ts';
import type { AffectedParts } from './service-record.ts';
import { type ServiceChanges, updateServices } from './services.ts';
import type { State } from './state.ts';
import { dirtyServices, guardedServices, indexWorkloads } from './workload-indexes.ts';

/** The changes of the input of the mesh stage. */
type DerivedChanges = Omit<MeshDelta, 'version' | 'configs'>;

type RegistryChanges = Pick<
  ChangeSet,
  | 'endpoints'
  | 'networkGateways'
  | 'addresses'
  | 'peerAuthentication'
  | 'workloads'
  | 'labelled'
  | 'configs'
  | 'nameConflicts'
>;

interface RegistryStep {
  readonly state: State;
  readonly derived: DerivedChanges;
  readonly changes: RegistryChanges;
}

/**
 * @param resources the new resources by key (undefined if deleted), without the kinds that generation reads directly
 */
export function* updateRegistry(
  before: State,
  resources: ReadonlyMap<ResourceKey, AnyResource | undefined>,
  configuration: Pick<MeshUpdate, 'mesh' | 'networks' | 'resolvedHosts'>,
): Slices<RegistryStep> {
  const { state: configured, changed: config } = configure(before, configuration);
  const everything = config.mesh !== undefined || config.networks !== undefined;
  const { tables, changed } = storeResources(configured.resources, resources);
  const stored = { ...configured, resources: tables };
  yield;
  const peerPolicies = updatePeerPolicies(stored, changed);
  const { registered, namespaces: workloads } = updateRegistered(stored.registered, changed, stored.settings);
  const counted = { ...stored, peerPolicies: peerPolicies.policies, registered };
  const indexed = yield* indexWorkloads(counted, changed);
  yield;
  const own = yield* dirtyServices(before, indexed, changed);
  const dirty = everything ? new Map([...indexed.definers.keys()].map((key) => [key, 'all' as const])) : own;
  if (everything) for (const key of own.keys()) dirty.set(key, 'all');
  for (const [key, affected] of guardedServices(before, indexed, peerPolicies.change)) {
    dirty.set(key, joinedParts(dirty.get(key), affected));
  }
  const { state: served, changes: services } = yield* updateServices(indexed, dirty);
  yield;
  const networkGateways = nextNetworkGateways(
    before.networkGateways,
    { ...served, resolvedHosts: configuration.resolvedHosts ?? before.networkGateways.resolvedHosts },
    changed.map(({ key }) => key),
  );
  yield;
  const unservedPods = updateUnserved(before, served, changed, services.addresses);
  const state = { ...served, networkGateways, unservedPods };
  const otherGateways = networksWithOtherGateways(before.networkGateways.gateways, networkGateways.gateways);
  const workloadRanges = state.workloadRanges.ranges;
  return {
    state,
    derived: {
      ...config,
      ...(workloadRanges !== before.workloadRanges.ranges && { workloadRanges }),
      ...(otherGateways.length > 0 && { networkGateways: networkGateways.gateways }),
      ...derivedOf(state, services),
    },
    changes: {
      endpoints: services.endpoints.union(servicesInNetworks(state, otherGateways)),
      networkGateways: otherGateways,
      addresses: services.addresses,
      peerAuthentication: peerPolicies.selections,
      workloads,
      labelled: changedWorkloads(changed),
      configs: changedConfigs(changed.filter(({ before, after }) => (after ?? before)?.kind === 'PeerAuthentication')),
      nameConflicts: newConflicts(before, state),
    },
  };
}

function derivedOf(state: State, { services, endpoints, peers }: ServiceChanges): DerivedChanges {
  const carried = new Map<ServiceKey, readonly Endpoint[] | undefined>();
  for (const key of new Set([...services.keys(), ...endpoints])) {
    const [before, after] = [services.get(key)?.before, state.services.get(key)];
    const list = state.endpoints.get(key);
    if (after !== undefined && carriesEndpoints(after)) carried.set(key, list);
    else if (before !== undefined && carriesEndpoints(before)) carried.set(key, undefined);
  }
  return { services: new Map([...services].map(([key, { after }]) => [key, after])), peers, endpoints: carried };
}

/** The services with endpoints in some of the networks. */
function servicesInNetworks({ records }: State, networks: readonly string[]): Set<ServiceKey> {
  const found = new Set<ServiceKey>();
  if (networks.length === 0) return found;
  for (const [key, record] of records.entries())
    if (networks.some((network) => record.networks.has(network))) found.add(key);
  return found;
}

function joinedParts(a: AffectedParts | undefined, b: AffectedParts): AffectedParts {
  return a === 'all' || b === 'all' ? 'all' : b.union(a ?? new Set());
}

/** Sets the mesh configuration and networks if they differ. */
function configure(
  before: State,
  { mesh, networks }: Pick<MeshUpdate, 'mesh' | 'networks'>,
): { state: State; changed: Pick<MeshDelta, 'mesh' | 'networks'> } {
  const changed = {
    ...(mesh !== undefined && !deepEqual(mesh, before.mesh) && { mesh }),
    ...(networks !== undefined && !deepEqual(networks, before.networks) && { networks }),
  };
  const networkOf =
    changed.networks === undefined ? before.networkOf : networkFinder(changed.networks, before.settings.clusterId);
  return { state: { ...before, ...changed, networkOf }, changed };
}

/** Pods at whose addresses no service is served, after a change of pods, addresses, or the networks of addresses. */
function updateUnserved(
  before: State,
  state: State,
  changed: readonly ResourceChange[],
  addresses: ReadonlySet<string>,
): State['unservedPods'] {
  const table = tableOf(state.resources, 'Pod');
  const pods = new Map<ResourceKey, Resource<'Pod'> | undefined>();
  let present = 0;
  for (const { key, before, after } of changed) {
    if ((after ?? before)?.kind !== 'Pod') continue;
    pods.set(key, ofKind(after, 'Pod'));
    if (after !== undefined) present++;
  }
  if (before.networkOf !== state.networkOf) for (const [key, pod] of table.entries()) pods.set(key, pod);
  for (const key of addresses) {
    // All existing Pods already count as changed.
    if (present === table.size) break;
    const address = addressOfKey(key);
    for (const pod of membersOf(state.podsByIp, addressId(address) ?? address)) pods.set(pod, table.get(pod));
  }
  const edits: [ResourceKey, true | undefined][] = [];
  pods.forEach((pod, key) => {
    const unserved = pod !== undefined && isUnserved(state, pod);
    if (unserved !== state.unservedPods.has(key)) edits.push([key, unserved ? true : undefined]);
  });
  return state.unservedPods.with(edits);
}

function isUnserved({ instances, networkOf }: State, pod: Resource<'Pod'>): boolean {
  const own = ownAddresses(pod);
  for (const address of own)
    if (instances.has(networkAddress(podNetwork(pod, address, networkOf), address))) return false;
  return own.length > 0;
}
