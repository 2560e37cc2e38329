/**
 * The registry: resources, and the services, endpoints and workloads that are derived from them. Only the main thread
 * has it. The maps are persistent, so the next state shares everything that a change does not touch. Other modules read
 * it through `Snapshot`.
 */
import type { Memos } from '../../core/memo.ts';
import { PMap } from '../../core/pmap.ts';
import { ALL_KINDS, type MeshConfig, type MeshNetworks } from '../../resources/index.ts';
import { type AllocatedAddresses, NO_ALLOCATED_ADDRESSES } from '../addresses/allocated-addresses.ts';
import { type GatewayState, noDocuments } from '../addresses/network-gateways.ts';
import { type CountedNames, NO_NAMES } from '../common/counts.ts';
import type { Groups } from '../common/groups.ts';
import { type NetworkFinder, networkFinder } from '../common/networks.ts';
import { emptyTables, type ResourceTables } from '../common/tables.ts';
import { NO_WORKLOAD_RANGES, type WorkloadRanges } from '../endpoints/workload-ranges.ts';
import { NO_PEER_POLICIES, type PeerPolicies } from '../policies/peer-authentication.ts';
import { EMPTY_POLICIES, type PolicyTable } from '../policies/workload-policies.ts';
import { NO_REMOTE_VIRTUAL_IPS, type RemoteVirtualIps } from '../services/virtual-ips.ts';
import {
  type BoundInstance,
  type Endpoint,
  isConfigKind,
  type ModelSettings,
  type NameConflict,
  type RegistryKind,
  type Service,
  type ServicePeers,
} from '../types/types.ts';
import { type LocalityNames, NO_LOCALITY_NAMES } from '../workloads/localities.ts';
import { configuredNetworks, type NetworkNames } from '../workloads/network-names.ts';
import { NO_WORKLOADS, type RegisteredWorkloads } from '../workloads/registered-workloads.ts';
import type { ServiceRecord } from './service-record.ts';

export const REGISTRY_KINDS = ALL_KINDS.filter((kind): kind is RegistryKind => !isConfigKind(kind));

/** Sums over services, kept up to date by differences. */
export interface Totals {
  readonly instances: number;
  readonly duplicateClusters: number;
  readonly notReady: number;
  readonly pendingPod: number;
  readonly withoutPod: number;
  readonly withoutInstances: number;
}

export interface State {
  readonly memos: Memos;
  readonly settings: ModelSettings;
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
  readonly networkOf: NetworkFinder;
  readonly resources: ResourceTables<RegistryKind>;

  /** IP address (`addressId`) → keys of the Pods that have it, in any cluster. */
  readonly podsByIp: Groups;
  readonly podsByNamespace: Groups;
  readonly entriesByNamespace: Groups;
  readonly registered: RegisteredWorkloads;
  /** `namespace/name` of an orchestrator service → keys of its EndpointSlices or Endpoints, in all clusters. */
  readonly documentsByService: Groups;
  /** Namespace → keys of resources that select workloads by label. */
  readonly selecting: Groups;
  /** Keys of the documents in {@link selecting} that also select pods. */
  readonly selectingPods: Groups;

  /** Service key → keys of the resources that define it. */
  readonly definers: Groups;
  readonly services: PMap<Service>;
  /**
   * Address (`addressId`) → keys of the Services whose virtual IP it is, of the Nodes that have it, of the Pods on the
   * host network of such a Node, and of the Endpoints or EndpointSlices that contain it without a reference to a Pod.
   */
  readonly addressOwners: Groups;
  readonly remoteVirtualIps: RemoteVirtualIps;
  readonly workloadRanges: WorkloadRanges;
  readonly allocatedAddresses: AllocatedAddresses;

  readonly peerPolicies: PeerPolicies;
  readonly policies: PolicyTable;
  readonly endpoints: PMap<readonly Endpoint[]>;
  readonly peers: PMap<ServicePeers>;
  readonly records: PMap<ServiceRecord>;
  /** Read (`Reads`) → keys of the services that depend on it. */
  readonly readers: Groups;
  /** Address in its network (`networkAddress`) → the instances there. */
  readonly instances: PMap<readonly BoundInstance[]>;
  readonly networkNames: NetworkNames;
  readonly networkGateways: GatewayState;
  /** Keys of running pods without a service at their addresses. */
  readonly unservedPods: PMap<true>;
  readonly totals: Totals;
  readonly addressClusters: CountedNames;
  /** The other clusters that endpoints are in. */
  readonly endpointClusters: CountedNames;
  readonly localities: LocalityNames;
  /** `address:<service key>` → its conflicts about addresses owned by others. */
  readonly nameConflicts: PMap<readonly NameConflict[]>;
}

export function emptyRegistry(settings: ModelSettings, mesh: MeshConfig, networks: MeshNetworks, memos: Memos): State {
  const groups: Groups = PMap.empty();
  const resources = emptyTables(REGISTRY_KINDS);
  return {
    memos,
    settings,
    mesh,
    networks,
    networkOf: networkFinder(networks, settings.clusterId),
    resources,
    podsByIp: groups,
    podsByNamespace: groups,
    entriesByNamespace: groups,
    registered: NO_WORKLOADS,
    documentsByService: groups,
    selecting: groups,
    selectingPods: groups,
    definers: groups,
    services: PMap.empty(),
    addressOwners: groups,
    remoteVirtualIps: NO_REMOTE_VIRTUAL_IPS,
    workloadRanges: NO_WORKLOAD_RANGES,
    allocatedAddresses: NO_ALLOCATED_ADDRESSES,
    peerPolicies: NO_PEER_POLICIES,
    policies: EMPTY_POLICIES,
    endpoints: PMap.empty(),
    peers: PMap.empty(),
    records: PMap.empty(),
    readers: groups,
    instances: PMap.empty(),
    networkNames: configuredNetworks(networks),
    networkGateways: noDocuments(settings, networks, resources),
    unservedPods: PMap.empty(),
    totals: {
      instances: 0,
      duplicateClusters: 0,
      notReady: 0,
      pendingPod: 0,
      withoutPod: 0,
      withoutInstances: 0,
    },
    addressClusters: NO_NAMES,
    endpointClusters: NO_NAMES,
    localities: NO_LOCALITY_NAMES,
    nameConflicts: PMap.empty(),
  };
}
