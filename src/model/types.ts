/**
 * The snapshot: the mesh as plain immutable data, built incrementally from resource changes; equal inputs make equal
 * snapshots whatever the order of arrival. The main thread has the whole ({@link Snapshot}), every thread that
 * generates what generation may read ({@link MeshSnapshot}).
 *
 *   resources ──changes──▶ services, endpoints, workloads ──▶ indexes (by address, host, namespace) ──▶ scopes (lazy, carried over)
 */
import type { Memos } from '../core/memo.ts';
import type { PMap } from '../core/pmap.ts';
import type { AnyResource, Kind, MeshConfig, MeshNetworks, Resource, ResourceKey } from '../resources/index.ts';
import type { ModelSettings } from './settings.ts';

export type { ModelSettings } from './settings.ts';

/** Protocol of a service port. `Unsupported` is "not said": sniffed where sniffing is on, else plain TCP. */
export type Protocol =
  | 'HTTP'
  | 'HTTP2'
  | 'GRPC'
  | 'GRPC-Web'
  | 'HTTPS'
  | 'TLS'
  | 'TCP'
  | 'UDP'
  | 'Mongo'
  | 'Redis'
  | 'MySQL'
  | 'Unsupported';

export interface ServicePort {
  readonly name: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/**
 * How a client reaches the endpoints (Istio's `Resolution`): `eds` client-side load balancing over known endpoints,
 * `dns` the proxy resolves names, `passthrough` the original destination.
 */
export type Resolution = 'eds' | 'dns' | 'passthrough';

/** `namespace/hostname`: one host may be defined in several namespaces. */
export type ServiceKey = string;

/** One of a service's address ranges, at one of its ports. */
export interface HeldRange {
  /** As among the addresses of the service. */
  readonly range: string;
  readonly port: number;
  /** The document that says that the headless Service is there. */
  readonly holder: ResourceKey;
}

export interface Service {
  readonly key: ServiceKey;
  readonly hostname: string;
  readonly namespace: string;
  readonly ports: readonly ServicePort[];
  /**
   * Virtual IPs (cluster IPs) or ServiceEntry addresses (CIDRs allowed); empty for headless services and address-less
   * entries.
   */
  readonly addresses: readonly string[];
  /**
   * Where ranges among {@link addresses} do not count, because connections there are to a headless Service of another
   * namespace.
   */
  readonly heldRanges?: readonly HeldRange[];
  readonly resolution: Resolution;
  /** A cluster-IP-less orchestrator service: its pods are reached by their own addresses. */
  readonly headless: boolean;
  /** ExternalName target, when it is one. */
  readonly externalName?: string;
  /** ServiceEntry `MESH_EXTERNAL`. */
  readonly meshExternal: boolean;
  /** Normalised: `*` public, `.` own namespace, `~` nobody, or namespaces. Never empty (mesh defaults applied). */
  readonly exportTo: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly subjectAltNames: readonly string[];
  /** `Orchestrator` or `External` (ServiceEntry): the registry it is from. */
  readonly registry: 'Orchestrator' | 'External';
  /** Short name of an orchestrator service (`reviews`), for domain forms; absent for service entries. */
  readonly shortName?: string;
  /** The defining resource. */
  readonly source: ResourceKey;
  /** For "oldest wins". */
  readonly created: number | undefined;
}

export type Health = 'healthy' | 'unhealthy' | 'draining';

/** One address serving one port of a service. */
export interface Endpoint {
  /** IP address, host name (resolution dns) or unix domain socket path (`/…` or `@…`). */
  readonly address: string;
  /** Port on the workload; 0 for unix domain sockets. */
  readonly port: number;
  /** Name of the service port it serves; services without port names use ''. */
  readonly servicePort: string;
  readonly labels: Readonly<Record<string, string>>;
  /** `region/zone/subzone`, parts may be empty; '' when unknown. */
  readonly locality: string;
  readonly network: string;
  /** Undefined means 1. */
  readonly weight: number | undefined;
  readonly serviceAccount: string;
  readonly health: Health;
  /** Namespace and name of the workload behind it (pod or workload entry), when known. */
  readonly workload: { readonly namespace: string; readonly name: string } | undefined;
  /** Host name of a stateful-set pod (`web-0`), for headless per-pod addressing. */
  readonly hostname: string;
  /**
   * True when it takes mesh mutual TLS: the workload has a proxy (label `security.mesh.io/tlsMode: mesh`, or a workload
   * entry with a service account and without that label), and no peer authentication policy switches mutual TLS off at
   * this port.
   */
  readonly tlsReady: boolean;
}

/** Of PeerAuthentication, as it is in force: what is not said is inherited already. */
export type MutualTlsMode = 'STRICT' | 'PERMISSIVE' | 'DISABLE';

/** What peer authentication policies ask of a workload. */
export interface PeerAuthentication {
  readonly mode: MutualTlsMode;
  /** Container ports with a mode of their own. */
  readonly ports: Readonly<Record<number, MutualTlsMode>>;
}

/** Keys of the policies about requests that hold for a workload, in order of precedence. They add up. */
export interface WorkloadPolicies {
  /** RequestAuthentication resources. */
  readonly authentication: readonly ResourceKey[];
  /** AuthorizationPolicy resources. */
  readonly authorization: readonly ResourceKey[];
}

/** What clients know of the workloads behind a service before they speak mesh mutual TLS to them. */
export interface ServicePeers {
  /** `namespace/serviceAccount`s, sorted. The account is empty where one that takes mutual TLS does not say its own. */
  readonly accounts: readonly string[];
  /** Service port name → whether all or some of its endpoints take it; ports of which none does are absent. */
  readonly ready: Readonly<Record<string, 'all' | 'some'>>;
}

/**
 * A service port that a proxy itself serves, found by the proxy's addresses: the ground of its inbound configuration.
 */
export interface BoundInstance {
  readonly service: ServiceKey;
  readonly hostname: string;
  readonly port: ServicePort;
  readonly endpoint: Endpoint;
}

export type VirtualService = Resource<'VirtualService'>;
export type Gateway = Resource<'Gateway'>;
export type SidecarResource = Resource<'Sidecar'>;

/**
 * The destination rules for one host, merged as seen from one scope (same namespace lists; subsets joined; first policy
 * wins).
 */
export interface MergedDestinationRule {
  readonly host: string;
  /** Namespace of the rules, for exportTo and for short names. */
  readonly namespace: string;
  readonly trafficPolicy: Resource<'DestinationRule'>['content']['trafficPolicy'];
  readonly subsets: NonNullable<Resource<'DestinationRule'>['content']['subsets']>;
  /** The rules merged, oldest first. */
  readonly sources: readonly ResourceKey[];
}

/** A virtual service with hosts, gateways and destinations resolved to full names: what generation reads. */
export interface ResolvedVirtualService {
  readonly key: ResourceKey;
  readonly namespace: string;
  readonly name: string;
  /** Fully qualified, `*` wildcards kept. */
  readonly hosts: readonly string[];
  /** `namespace/name` of gateways, or `mesh`. Never empty. */
  readonly gateways: readonly string[];
  /** Content with every destination host fully qualified. */
  readonly content: VirtualService['content'];
  readonly created: number | undefined;
}

/** One egress listener of a scope: the default scope has exactly one, that catches all ports. */
export interface EgressListener {
  /** Sidecar egress `port`; absent: every port of the imported services. */
  readonly port: { readonly number: number; readonly protocol: Protocol; readonly name: string } | undefined;
  readonly bind: string;
  readonly captureMode: 'DEFAULT' | 'IPTABLES' | 'NONE';
  /**
   * Visible through this listener, hostname → service, one service a hostname (the scope's own namespace first, then
   * the oldest).
   */
  readonly services: PMap<Service>;
  /** For gateway `mesh`, in precedence order (oldest first, then by namespace/name). */
  readonly virtualServices: readonly ResolvedVirtualService[];
}

/**
 * What a namespace's proxies, or those that a Sidecar selects, can see. Scopes are values shared by all proxies of the
 * same namespace and Sidecar; the next snapshot carries over each scope that its changes do not touch (same object).
 */
export interface Scope {
  /**
   * `namespace/` for the default scope, `namespace/sidecarName` for one of the namespace's own Sidecars,
   * `namespace/rootNamespace/sidecarName` when the root namespace's Sidecar applies here.
   */
  readonly id: string;
  readonly namespace: string;
  readonly sidecar: ResourceKey | undefined;
  readonly egress: readonly EgressListener[];
  /** Union over egress listeners. */
  readonly services: PMap<Service>;
  /** Sidecar ingress listeners as written; undefined: derive inbound from the bound services. */
  readonly ingress: NonNullable<SidecarResource['content']['ingress']> | undefined;
  readonly outboundTrafficPolicy: 'ALLOW_ANY' | 'REGISTRY_ONLY';
  /**
   * Merged rule for a service of this scope as seen from it: own namespace, then the service's, then the root
   * namespace. Undefined for hosts that are no services of the scope: there is no cluster that a rule could shape. One
   * function always gives the same answers, and scopes that find the same rules may share it.
   */
  destinationRule(hostname: string): MergedDestinationRule | undefined;
}

/** Workloads by where they are and what labels they have. */
export interface WorkloadSelection {
  /** Undefined: in any. */
  readonly namespace: string | undefined;
  /** Empty: whatever they have. */
  readonly labels: Readonly<Record<string, string>>;
}

/** What of a proxy says which network it is in: itself, or its labels. */
export interface ProxyPlace {
  readonly network: string;
  readonly labels: Readonly<Record<string, string>>;
}

/**
 * Names of what changed between two snapshots, exact: a key stands here only if what generation reads of it differs.
 */
export interface ChangeSet {
  readonly fromVersion: number;
  readonly toVersion: number;
  /** Mesh configuration or networks changed: everything has to be looked at. */
  readonly everything: boolean;
  /** Services added, removed or redefined (ports, addresses, resolution, exportTo, …). */
  readonly services: ReadonlyMap<
    ServiceKey,
    { readonly before: Service | undefined; readonly after: Service | undefined }
  >;
  /** Services whose endpoints changed. */
  readonly endpoints: ReadonlySet<ServiceKey>;
  /** Services whose peers (identities, readiness for mutual TLS) changed: always some of {@link endpoints}. */
  readonly peers: ReadonlySet<ServiceKey>;
  /** Workloads that may be under another peer authentication than before. */
  readonly peerAuthentication: readonly WorkloadSelection[];
  /** Workloads that may be selected by other request authentication or authorization policies or EnvoyFilters. */
  readonly policies: readonly WorkloadSelection[];
  /** Namespaces in which {@link Snapshot.registeredLabels} may answer otherwise than before. */
  readonly workloads: ReadonlySet<string>;
  /**
   * Addresses, each in its network (`network/address`), whose bound instances changed: proxies there need new inbound
   * configuration.
   */
  readonly addresses: ReadonlySet<string>;
  /** Changed resources of {@link CONFIG_KINDS}, and PeerAuthentications, by key. */
  readonly configs: ReadonlyMap<
    ResourceKey,
    { readonly before: AnyResource | undefined; readonly after: AnyResource | undefined }
  >;
  /** Conflicts that the previous snapshot did not have. */
  readonly nameConflicts: readonly NameConflict[];
  /** Scopes that are not the same object as before, of those that somebody has acquired: id → what of it changed. */
  readonly scopes: ReadonlyMap<string, ScopeChange>;
}

/**
 * What changed of what generation reads, as it is now; undefined: gone. Plain data, which goes to other threads.
 * Several in a row may be merged by taking the newest of each key.
 */
export interface MeshDelta {
  /** Of the state that it leads to. */
  readonly version: number;
  /** Present where they changed. */
  readonly mesh?: MeshConfig;
  readonly networks?: MeshNetworks;
  readonly services: ReadonlyMap<ServiceKey, Service | undefined>;
  readonly peers: ReadonlyMap<ServiceKey, ServicePeers | undefined>;
  /** Of services whose clusters or listeners carry them. */
  readonly endpoints: ReadonlyMap<ServiceKey, readonly Endpoint[] | undefined>;
  /** Resources of {@link CONFIG_KINDS}. */
  readonly configs: ReadonlyMap<ResourceKey, AnyResource | undefined>;
}

/** How a scope differs from the one of the previous snapshot. */
export interface ScopeChange {
  /**
   * Its shape (Sidecar, egress listeners, traffic policy) changed, or it is new or gone: regenerate everything of it.
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

/** A document that claims a name which, in whole or for the callers of other namespaces, belongs to somebody else. */
export interface NameConflict {
  /** The one that does not get it. */
  readonly resource: ResourceKey;
  /** One line: which document, which name, whose it is, and what is left of the claim. */
  readonly message: string;
}

/** Things in a snapshot that are wrong without being invalid; the metrics named `ctl_*` show their number. */
export interface SnapshotFindings {
  readonly duplicateSubsets: number;
  readonly endpointsNotReady: number;
  readonly endpointsPendingPod: number;
  readonly endpointsWithoutPod: number;
  readonly servicesWithoutInstances: number;
  readonly podsWithoutService: number;
  readonly duplicateClusters: number;
  /** Claims of names that belong to somebody else: see {@link Snapshot.nameConflicts}. */
  readonly nameConflicts: number;
}

/** Kinds that generation reads as they are. What services are made of reaches it as services and endpoints instead. */
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
  'VirtualService',
] as const satisfies readonly Kind[];
export type ConfigKind = (typeof CONFIG_KINDS)[number];
/** All others: what services, endpoints and workloads are made of. */
export type RegistryKind = Exclude<Kind, ConfigKind>;

export function isConfigKind(kind: string): kind is ConfigKind {
  return (CONFIG_KINDS as readonly string[]).includes(kind);
}

/** What generation may read: the same on the main thread and in every worker, and immutable. */
export interface MeshSnapshot {
  readonly version: number;
  readonly settings: ModelSettings;
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
  /** Of the model that made this snapshot: results of generation that are remembered with its values. */
  readonly memos: Memos;
  readonly services: PMap<Service>;
  /**
   * Endpoints, in stable order, of the services whose clusters or listeners are made of them: see `carriesEndpoints`.
   */
  readonly carriedEndpoints: PMap<readonly Endpoint[]>;
  /** Of services whose endpoints have identities. */
  readonly peers: PMap<ServicePeers>;
  scopeById(id: string): Scope | undefined;
  /** Services visible to a gateway of this namespace: all exported to it. */
  gatewayScope(namespace: string): Scope;
  /** Virtual services bound to gateway `namespace/name`, precedence order. */
  virtualServicesOfGateway(gateway: string): readonly ResolvedVirtualService[];
  resources<K extends ConfigKind>(kind: K): PMap<Resource<K>>;
}

/** The whole, on the main thread: see `Model`. */
export interface Snapshot extends MeshSnapshot {
  /** All endpoints of a service, in stable order. */
  readonly endpoints: PMap<readonly Endpoint[]>;
  /** What peer authentication policies ask of a workload with these labels. */
  peerAuthenticationOf(namespace: string, labels: Readonly<Record<string, string>>): PeerAuthentication;
  /** The policies about requests to a workload with these labels. */
  policiesOf(namespace: string, labels: Readonly<Record<string, string>>): WorkloadPolicies;
  /** The EnvoyFilters for a workload with these labels: the root namespace's first, each namespace's oldest first. */
  envoyFiltersOf(namespace: string, labels: Readonly<Record<string, string>>): readonly ResourceKey[];
  /**
   * Services of one host name that are in force (beside an orchestrator Service no ServiceEntry is): oldest first, then
   * by namespace.
   */
  servicesByHost(hostname: string): readonly Service[];
  /** Instances at an address of a network: those of different networks may have the same one. */
  instancesAt(network: string, address: string): readonly BoundInstance[];
  /**
   * The network of a proxy at one of its addresses: what it says, where that is a network of the mesh, else the one of
   * the address.
   */
  networkOfProxy(proxy: ProxyPlace, address: string): string;
  /**
   * Networks that the configuration names or that endpoints are in. The same object for as long as they are the same.
   */
  readonly networkNames: ReadonlySet<string>;
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
   * Labels of the workloads (pods that have not ended, workload entries) that the registry knows to run as this service
   * account, each set of labels once: labels that nobody has to be believed for.
   */
  registeredLabels(namespace: string, serviceAccount: string): readonly Readonly<Record<string, string>>[];
  /**
   * Labels `key=value` that some virtual service's `sourceLabels` ask for, seen from a scope (sorted): no others
   * matter.
   */
  sourceLabels(scopeId: string): readonly string[];
  /**
   * Where endpoints are: regions, zones (`region/zone`) and subzones (`region/zone/subzone`). The same object for as
   * long as they are the same.
   */
  readonly places: ReadonlySet<string>;
  resources<K extends Kind>(kind: K): PMap<Resource<K>>;
  findings(): SnapshotFindings;
  /** Documents that claim names of others, by name and document. */
  nameConflicts(): readonly NameConflict[];
}
