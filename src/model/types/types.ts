/**
 * The snapshot: the mesh as plain immutable data, built incrementally from resource changes. Equal inputs result in
 * equal snapshots, whatever their order. The main thread has the complete {@link Snapshot}; workers have a {@link
 * MeshSnapshot}, which is what generation may read.
 *
 *   resources ─changes─▶ services, endpoints, workloads ─▶ indexes (by address, host, namespace) ─▶ sidecar scopes
 *
 * Sidecar scopes are built when they are first read, and carried over to the next snapshot until something in them
 * changes.
 */
import type { Memos } from '../../core/memo.ts';
import type { PMap } from '../../core/pmap.ts';
import type { Kind, MeshConfig, MeshNetworks, Resource, ResourceKey } from '../../resources/index.ts';
import type { NameConflict } from './change-types.ts';
import type { Gateway, ResolvedVirtualService, Scope } from './scope-types.ts';
import type {
  BoundInstance,
  Endpoint,
  NetworkGateways,
  PeerAuthentication,
  Service,
  ServicePeers,
  WorkloadPolicies,
} from './service-types.ts';
import type { ModelSettings } from './settings.ts';

export type * from './change-types.ts';
export type * from './scope-types.ts';
export type * from './service-types.ts';
export type { ModelSettings } from './settings.ts';

/** How a proxy states its network: directly, or by its labels. */
export interface ProxyNetwork {
  readonly network: string;
  readonly labels: Readonly<Record<string, string>>;
  /** ID of its cluster: from its credential, else from its node. */
  readonly clusterId?: string;
}

export type RegisteredWorkload = Pick<Endpoint, 'address' | 'labels' | 'locality' | 'network' | 'workload'>;

/** Numbers of a snapshot that metrics report, mostly of problems that do not make documents invalid. */
export interface SnapshotFindings {
  /** Of all services; one for each port. */
  readonly endpoints: number;
  readonly duplicateSubsets: number;
  readonly endpointsNotReady: number;
  readonly endpointsPendingPod: number;
  readonly endpointsWithoutPod: number;
  readonly podsWithoutService: number;
  readonly duplicateClusters: number;
  /** See {@link Snapshot.nameConflicts}. */
  readonly nameConflicts: number;
}

/** Kinds whose resources generation reads directly. The other kinds reach it as services and endpoints. */
export const CONFIG_KINDS = [
  'AuthorizationPolicy',
  'DestinationRule',
  'EnvoyFilter',
  'Gateway',
  'JsonWebKeySet',
  'Namespace',
  'RequestAuthentication',
  'Secret',
  'Sidecar',
  'Telemetry',
  'VirtualService',
  'instance',
  'rule',
] as const satisfies readonly Kind[];

export type ConfigKind = (typeof CONFIG_KINDS)[number];

/** All other kinds, from which services, endpoints and workloads are derived. */
export type RegistryKind = Exclude<Kind, ConfigKind>;

export function isConfigKind(kind: string): kind is ConfigKind {
  return (CONFIG_KINDS as readonly string[]).includes(kind);
}

/** The data that generation may read: immutable, the same on the main thread and in every worker. */
export interface MeshSnapshot {
  readonly version: number;
  readonly settings: ModelSettings;
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
  /** See `network-gateways.ts`. The same object until it changes, and so are its members. */
  readonly networkGateways: NetworkGateways;
  /** The memos of the model, which cache results of generation as long as their inputs exist. */
  readonly memos: Memos;
  readonly services: PMap<Service>;
  /** Endpoints that generation reads, in stable order: see `carriesEndpoints`. */
  readonly carriedEndpoints: PMap<readonly Endpoint[]>;
  /** For services whose endpoints have identities. */
  readonly peers: PMap<ServicePeers>;
  /**
   * Address ranges (CIDR notation) that contain the addresses of all Pods, nodes and API servers: see
   * `workload-ranges.ts`. The same object until they change.
   */
  readonly workloadRanges: readonly string[];
  scopeById(id: string): Scope | undefined;
  /** Services visible to a gateway of this namespace: all exported to it. */
  gatewayScope(namespace: string): Scope;
  /** Virtual services bound to gateway `namespace/name`, precedence order. */
  virtualServicesOfGateway(gateway: string): readonly ResolvedVirtualService[];
  /** The VirtualServices that delegate to one. */
  rootsOf(delegate: ResourceKey): readonly ResourceKey[];
  resources<K extends ConfigKind>(kind: K): PMap<Resource<K>>;
}

/** What a workload is registered as. */
export type WorkloadResource = Resource<'Pod'> | Resource<'WorkloadEntry'>;

/** The complete snapshot, on the main thread: see `Model`. */
export interface Snapshot extends MeshSnapshot {
  /** All endpoints of a service, in stable order. */
  readonly endpoints: PMap<readonly Endpoint[]>;
  /** The mutual TLS modes that peer authentication policies require of a workload with these labels. */
  peerAuthenticationOf(namespace: string, labels: Readonly<Record<string, string>>): PeerAuthentication;
  /** The policies about requests to a workload with these labels. */
  policiesOf(namespace: string, labels: Readonly<Record<string, string>>): WorkloadPolicies;
  /** The EnvoyFilters for a workload with these labels: the root namespace's first, each namespace's oldest first. */
  envoyFiltersOf(namespace: string, labels: Readonly<Record<string, string>>): readonly ResourceKey[];
  /** The Telemetry documents for a workload, from the widest scope to the narrowest. */
  telemetryOf(namespace: string, labels: Readonly<Record<string, string>>): readonly ResourceKey[];
  /**
   * Services of one host name that are in force (ServiceEntries are not, if there is a Service): oldest first, then by
   * namespace.
   */
  servicesByHost(hostname: string): readonly Service[];
  /** Instances at an address of a network; different networks may use the same addresses. */
  instancesAt(network: string, address: string): readonly BoundInstance[];
  /** The workload of a namespace at an address of a network: of an endpoint of its services, else a Pod. */
  workloadAt(network: string, address: string, namespace: string): RegisteredWorkload | undefined;
  /**
   * Keys of the Pods that have an address, of the Services whose virtual IP it is, and of the Endpoints or
   * EndpointSlices that contain it without a reference to a Pod. Nodes are not included.
   */
  ownersOf(address: string): readonly ResourceKey[];
  /**
   * The network of a proxy at one of its addresses: the one that it states, if that is a network of the mesh, else that
   * of its cluster, else that of the address.
   */
  networkOfProxy(proxy: ProxyNetwork, address: string): string;
  /** The network of a Pod or a WorkloadEntry at one of its addresses. */
  networkOfWorkload(workload: WorkloadResource, address: string): string;
  /** Networks that the configuration names or that endpoints are in; the same object until they change. */
  readonly networkNames: ReadonlySet<string>;
  /** Host names of gateways of networks that have to be resolved; the same object until they change. */
  readonly gatewayHosts: readonly string[];
  /** One line for each gateway of a network without an address; the same object until they change. */
  readonly gatewayProblems: readonly string[];
  /** The other clusters whose proxies use other addresses for some service; the same object until they change. */
  readonly addressClusters: ReadonlySet<string>;
  /** The other clusters that endpoints are in; the same object until they change. */
  readonly endpointClusters: ReadonlySet<string>;
  /**
   * The scope of a namespace's proxies with these labels: picks the Sidecar by selector, then the namespace's default
   * Sidecar, then the root namespace's, then none.
   */
  scopeOf(namespace: string, labels: Readonly<Record<string, string>>): Scope;
  /**
   * Gateway resources selecting a workload with these labels in this namespace (settings.scopeGatewayToNamespace
   * respected), oldest first, then by namespace/name.
   */
  gatewaysFor(namespace: string, labels: Readonly<Record<string, string>>): readonly Gateway[];
  /**
   * The distinct label sets of the workloads (running Pods, WorkloadEntries) of this service account in the registry.
   * Unlike the labels that a proxy states, these can be trusted.
   */
  registeredLabels(namespace: string, serviceAccount: string): readonly Readonly<Record<string, string>>[];
  /**
   * Labels `key=value` that `sourceLabels` of the scope's virtual services match, sorted: the only labels of a proxy
   * that its routes depend on.
   */
  sourceLabels(scopeId: string): readonly string[];
  /** Labels `key=value` by which the destination rules of the scope's namespace select proxies, sorted. */
  ruleLabels(scope: Scope): readonly string[];
  /**
   * The regions, zones (`region/zone`) and subzones (`region/zone/subzone`) of endpoints; the same object until they
   * change.
   */
  readonly localityNames: ReadonlySet<string>;
  resources<K extends Kind>(kind: K): PMap<Resource<K>>;
  findings(): SnapshotFindings;
  /** The number of clusters, including subsets, with endpoint discovery and without endpoints. */
  clustersWithoutInstances(): number;
  /** Documents that use names owned by others, by name and document. */
  nameConflicts(): readonly NameConflict[];
}
