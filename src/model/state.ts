/**
 * All that a snapshot is made of: persistent maps, so that the next state shares everything that a change leaves alone.
 * Internal to this room; others see it through `Snapshot`.
 */
import type { Memos } from '../core/memo.ts';
import { PMap } from '../core/pmap.ts';
import type { MeshConfig, MeshNetworks } from '../resources/mesh-config.ts';
import { ALL_KINDS, type AnyResource, type Kind, type Resource, type ResourceKey } from '../resources/types.ts';
import type { RuleTable } from './destination-rules.ts';
import type { Groups } from './groups.ts';
import type { HeadlessAddresses } from './headless-addresses.ts';
import { networkFinder } from './networks.ts';
import { NO_PEER_POLICIES, type PeerPolicies } from './peer-authentication.ts';
import { NO_PLACES, type Places } from './places.ts';
import type { RegisteredWorkloads } from './registered-workloads.ts';
import type { ServiceRecord } from './service-record.ts';
import type { BoundInstance, Endpoint, ModelSettings, NameConflict, Service, ServicePeers } from './types.ts';
import { NO_VIRTUAL_SERVICES, type VirtualServiceTables } from './virtual-services.ts';
import { EMPTY_POLICIES, type PolicyTable } from './workload-policies.ts';

export type ResourceTables = Readonly<Record<Kind, PMap<AnyResource>>>;

/** Sums over services and rules, kept up to date by differences. */
export interface Totals {
  readonly duplicateClusters: number;
  readonly notReady: number;
  readonly pendingPod: number;
  readonly withoutPod: number;
  readonly withoutInstances: number;
  readonly duplicateSubsets: number;
}

export interface State {
  readonly version: number;
  /** Owned by who made the model; every state of it has the same. */
  readonly memos: Memos;
  readonly settings: ModelSettings;
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
  readonly networkOf: (address: string) => string;
  readonly resources: ResourceTables;

  /** IP address → keys of the pods that own it. */
  readonly podsByIp: Groups;
  readonly podsByNamespace: Groups;
  readonly entriesByNamespace: Groups;
  readonly registered: RegisteredWorkloads;
  /** `namespace/name` of an orchestrator service → keys of its slices. */
  readonly slicesByService: Groups;
  /** Namespace → keys of resources that select workloads by label. */
  readonly selecting: Groups;

  /** Service key → keys of the resources that define it. */
  readonly definers: Groups;
  readonly services: PMap<Service>;
  /**
   * Address (`addressId`) → keys of the orchestrator Services whose virtual IP it is, of the Pods that have it, and of the Endpoints or
   * EndpointSlices that name it without a Pod.
   */
  readonly addressOwners: Groups;
  readonly headlessAddresses: HeadlessAddresses;
  /** Address ranges (as `claimedRanges` writes them) → keys of the ServiceEntries that have them. */
  readonly claimedRanges: Groups;
  /** Host name → all services that claim it: the orchestrator's before others, then oldest first, then by namespace. */
  readonly claimants: PMap<readonly Service[]>;
  /** Host name → those of its claimants that are in force. */
  readonly servicesByHost: PMap<readonly Service[]>;
  /** Host name → the first of its services that all namespaces see. */
  readonly publicServices: PMap<Service>;
  /** Namespace → host names that it defines. */
  readonly hostsByNamespace: Groups;
  /** Namespace → host names that others export to it by name. */
  readonly hostsExportedTo: Groups;
  /** Wildcard host names of services, all under the key `''`. */
  readonly wildcardHosts: Groups;

  readonly peerPolicies: PeerPolicies;
  readonly policies: PolicyTable;
  readonly endpoints: PMap<readonly Endpoint[]>;
  /** Those of `endpoints` that generation reads: of the services that {@link carriesEndpoints}. */
  readonly carriedEndpoints: PMap<readonly Endpoint[]>;
  readonly peers: PMap<ServicePeers>;
  readonly records: PMap<ServiceRecord>;
  /** What endpoints were computed from (`pod:…`, `ip:…`, `node:…`, `auth:…`) → service keys. */
  readonly readers: Groups;
  readonly instances: PMap<readonly BoundInstance[]>;
  /** Keys of running pods at whose addresses no service is served. */
  readonly unservedPods: PMap<true>;
  readonly totals: Totals;
  readonly places: Places;
  /** What claims the names of others: `host:…`, `address:<service key>` or the key of a virtual service → the conflicts. */
  readonly nameConflicts: PMap<readonly NameConflict[]>;

  readonly virtualServices: VirtualServiceTables;
  readonly rules: RuleTable;
  /** Namespace → its Sidecars, oldest first. */
  readonly sidecars: PMap<readonly Resource<'Sidecar'>[]>;
  /** In precedence order. */
  readonly gateways: readonly Resource<'Gateway'>[];
}

/**
 * Whether generation reads a service's endpoints: its clusters carry them where proxies resolve names, and where the pods of a
 * headless service have listeners of their own. Endpoints of all other services reach proxies by EDS alone.
 */
export function carriesEndpoints({ resolution, headless }: Service, settings: ModelSettings): boolean {
  if (resolution === 'dns') return true;
  return headless && resolution === 'passthrough' && settings.headlessPodListeners && !settings.edsForHeadless;
}

export function emptyState(settings: ModelSettings, mesh: MeshConfig, networks: MeshNetworks, memos: Memos): State {
  const groups: Groups = PMap.empty();
  const tables = ALL_KINDS.map((kind) => [kind, PMap.empty<AnyResource>()] as const);
  return {
    version: 1,
    memos,
    settings,
    mesh,
    networks,
    networkOf: networkFinder(networks, settings.clusterId),
    resources: Object.fromEntries(tables) as Record<Kind, PMap<AnyResource>>,
    podsByIp: groups,
    podsByNamespace: groups,
    entriesByNamespace: groups,
    registered: PMap.empty(),
    slicesByService: groups,
    selecting: groups,
    definers: groups,
    services: PMap.empty(),
    addressOwners: groups,
    headlessAddresses: groups,
    claimedRanges: groups,
    claimants: PMap.empty(),
    servicesByHost: PMap.empty(),
    publicServices: PMap.empty(),
    hostsByNamespace: groups,
    hostsExportedTo: groups,
    wildcardHosts: groups,
    peerPolicies: NO_PEER_POLICIES,
    policies: EMPTY_POLICIES,
    endpoints: PMap.empty(),
    carriedEndpoints: PMap.empty(),
    peers: PMap.empty(),
    records: PMap.empty(),
    readers: groups,
    instances: PMap.empty(),
    unservedPods: PMap.empty(),
    totals: {
      duplicateClusters: 0,
      notReady: 0,
      pendingPod: 0,
      withoutPod: 0,
      withoutInstances: 0,
      duplicateSubsets: 0,
    },
    places: NO_PLACES,
    nameConflicts: PMap.empty(),
    virtualServices: NO_VIRTUAL_SERVICES,
    rules: PMap.empty(),
    sidecars: PMap.empty(),
    gateways: [],
  };
}

/** The table of a kind: the one place where a kind's name and its content's type are joined again. */
export function tableOf<K extends Kind>(tables: ResourceTables, kind: K): PMap<Resource<K>> {
  return tables[kind] as unknown as PMap<Resource<K>>;
}

/** A resource that really changed: fingerprints differ. */
export interface Changed {
  readonly key: ResourceKey;
  readonly before: AnyResource | undefined;
  readonly after: AnyResource | undefined;
}

/** Narrows a side of a change to a kind. */
export function ofKind<K extends Kind>(resource: AnyResource | undefined, kind: K): Resource<K> | undefined {
  return resource?.kind === kind ? (resource as unknown as Resource<K>) : undefined;
}
