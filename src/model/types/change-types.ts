/** Types of a change set: the difference between two snapshots. */
import type { AnyResource, MeshConfig, MeshNetworks, ResourceKey } from '../../resources/index.ts';
import type { ResolvedVirtualService } from './scope-types.ts';
import type { Endpoint, NetworkGateways, Service, ServiceKey, ServicePeers } from './service-types.ts';

/** Workloads selected by namespace and labels. */
export interface WorkloadSelection {
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  /** Empty: all workloads. */
  readonly labels: Readonly<Record<string, string>>;
}

/**
 * Names of what changed between two snapshots. Exact: a key is only listed if the part of it that generation reads
 * differs.
 */
export interface ChangeSet {
  readonly fromVersion: number;
  readonly toVersion: number;
  /** Mesh configuration or networks changed: everything may be affected. */
  readonly everything: boolean;
  /** Services added, removed or redefined (ports, addresses, resolution, exportTo, …). */
  readonly services: ReadonlyMap<
    ServiceKey,
    { readonly before: Service | undefined; readonly after: Service | undefined }
  >;
  readonly endpoints: ReadonlySet<ServiceKey>;
  /** Services whose peers (identities, readiness for mutual TLS) changed: a subset of {@link endpoints}. */
  readonly peers: ReadonlySet<ServiceKey>;
  readonly peerAuthentication: readonly WorkloadSelection[];
  /** Workloads whose request authentication or authorization policies or EnvoyFilters may have changed. */
  readonly policies: readonly WorkloadSelection[];
  /** Namespaces in which the result of `Snapshot.registeredLabels` may have changed. */
  readonly workloads: ReadonlySet<string>;
  /** Pods and registered WorkloadEntries, and WorkloadGroups, whose change or deletion may change labels of proxies. */
  readonly labelled: ReadonlySet<ResourceKey>;
  readonly workloadRanges: boolean;
  /**
   * Networks whose gateways changed. Services with endpoints there are among {@link endpoints}.
   */
  readonly networkGateways: readonly string[];
  /**
   * Addresses, each in its network (`network/address`), whose bound instances changed: proxies there need new inbound
   * configuration.
   */
  readonly addresses: ReadonlySet<string>;
  /** Changed resources of `CONFIG_KINDS`, and PeerAuthentications, by key. */
  readonly configs: ReadonlyMap<
    ResourceKey,
    { readonly before: AnyResource | undefined; readonly after: AnyResource | undefined }
  >;
  readonly nameConflicts: readonly NameConflict[];
  /** Changed scopes among the acquired ones: ID → what changed. */
  readonly scopes: ReadonlyMap<string, ScopeChange>;
}

/**
 * The new values of changed inputs of generation; undefined if deleted. Plain data that is sent to other threads.
 * Consecutive deltas may be merged by taking the newest value of each key.
 */
export interface MeshDelta {
  readonly version: number;
  /** Present if they changed. */
  readonly mesh?: MeshConfig;
  readonly networks?: MeshNetworks;
  readonly workloadRanges?: readonly string[];
  readonly networkGateways?: NetworkGateways;
  readonly services: ReadonlyMap<ServiceKey, Service | undefined>;
  readonly peers: ReadonlyMap<ServiceKey, ServicePeers | undefined>;
  /** Endpoints that generation reads: see `carriesEndpoints`. */
  readonly endpoints: ReadonlyMap<ServiceKey, readonly Endpoint[] | undefined>;
  readonly configs: ReadonlyMap<ResourceKey, AnyResource | undefined>;
}

/** How a scope differs from the one of the previous snapshot. */
export interface ScopeChange {
  /**
   * Its structure (Sidecar, egress listeners, traffic policy) changed, or it is new or deleted: all of its resources
   * are generated again.
   */
  readonly everything: boolean;
  /** Host names of services added, removed or redefined in it. */
  readonly hosts: ReadonlySet<string>;
  /** Host names whose merged destination rule changed. */
  readonly destinationRules: ReadonlySet<string>;
  /** Virtual services (before and after) that changed in it. */
  readonly virtualServices: ReadonlyMap<
    ResourceKey,
    { readonly before: ResolvedVirtualService | undefined; readonly after: ResolvedVirtualService | undefined }
  >;
}

/**
 * A document that uses a name which, completely or for callers of other namespaces, is owned by another document; or a
 * delegation that cannot be followed.
 */
export interface NameConflict {
  /** The document that does not own the name, or whose routes are not in force. */
  readonly resource: ResourceKey;
  /** Absent for a conflict about a name. */
  readonly about?: 'delegate';
  /** One line: which document, which name, who owns it, and for whom the document still applies. */
  readonly message: string;
}
