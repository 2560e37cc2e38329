/**
 * Inputs and outputs of generation. A view is the equivalence class of proxies that share one part of their
 * configuration; a generator gets the snapshot and the view, never a proxy, so whatever it reads of a proxy must be
 * part of the view.
 */
import type { ClientFiles, GatewayTopology, SidecarConfiguration } from '../core/proxy.ts';
import type { OwnTracing } from '../core/tracing.ts';
import { XDS_TYPES, type XdsType } from '../core/xds-types.ts';
import type { PeerAuthentication, Protocol, WorkloadPolicies } from '../model/index.ts';
import type { ResourceKey, SecretName } from '../resources/index.ts';
import type { PolicyNeeds } from './indexes/index.ts';
import type { Facts, MeshReader } from './reads/index.ts';

/** The resource types that are generated in the pool. EDS is encoded on the main thread, where it changes. */
export type GeneratedType = Exclude<XdsType, 'eds'>;
export const GENERATED_TYPES = XDS_TYPES.filter((type): type is GeneratedType => type !== 'eds');

/**
 * Types that are generated for proxies that request a type: listeners together with their routes, and these with their
 * virtual hosts.
 */
export const GENERATED_FOR: Readonly<Record<XdsType, readonly GeneratedType[]>> = {
  cds: ['cds'],
  eds: ['cds'],
  sds: ['sds'],
  ecds: ['ecds'],
  lds: ['lds', 'rds', 'vhds'],
  rds: ['lds', 'rds', 'vhds'],
  vhds: ['lds', 'rds', 'vhds'],
  nds: ['nds'],
};

export type IpFamily = 'ipv4' | 'ipv6';

/**
 * The address families of a proxy's machine. Part of the keys of views: one of three values, however many addresses
 * proxies report.
 */
export type NodeFamilies = IpFamily | 'dual';

export type InterceptionMode = 'REDIRECT' | 'TPROXY' | 'NONE';

/** Features of an Envoy that generation depends on. Part of every view's key. */
export interface Capabilities {
  /**
   * Extension names of `node.extensions` that generation checks (sorted); undefined if the node sent no list: all are
   * assumed then.
   */
  readonly extensions: readonly string[] | undefined;
  /** Whether mesh certificates can be fetched from the agent: see `SDS_CLUSTER` of core/proxy.ts. */
  readonly sds: boolean;
  /** Set if that agent is Istio's. */
  readonly istioAgent?: true;
  /** Set if Envoy reaches the policy component through `POLICY_CLUSTER` of core/proxy.ts. */
  readonly policyCluster?: true;
  /** Set if Envoy has the replacements of deprecated fields: see `OLDEST_TESTED` of core/envoy-version.ts. */
  readonly replacements?: true;
  /** Set if Envoy has fields that the oldest supported version lacks: see `FIELDS_OF_1_40` there. */
  readonly fieldsOf140?: true;
  /** Set if the proxies ask for the virtual hosts that they use. Of outbound parts only. */
  readonly onDemand?: OnDemand;
  /** Hosts that these proxies get without asking, because their Sidecar names them; absent: none. */
  readonly namedHosts?: readonly string[];
  /** Options that the owners of the proxies have set: see `ProxyOptions` of core/proxy.ts. */
  readonly http10?: true;
  readonly idleTimeoutMs?: number;
  readonly clientFiles?: ClientFiles;
}

/** What a proxy on demand gets before it asks: nothing, or what others have asked for. */
export type OnDemand = Exclude<SidecarConfiguration, 'all'>;

/** How a proxy's clusters name their endpoints: see `common/endpoint-names.ts`. */
export type EndpointNames = 'cluster' | 'short';

export interface AppliedFilter {
  readonly key: ResourceKey;
  /** Indexes in its `configPatches`, ascending: those whose context and proxy match the view. */
  readonly patches: readonly number[];
}

/** The types whose resources EnvoyFilters patch. */
export const PATCHED_TYPES = ['cds', 'ecds', 'lds', 'rds', 'vhds'] as const;
export type PatchedType = (typeof PATCHED_TYPES)[number];

/** An EnvoyFilter as a unit was last made with it. */
export interface FormerFilter extends AppliedFilter {
  /** The serialized content of the EnvoyFilter; absent if it and the patches are the current ones. */
  readonly content?: Uint8Array;
}

/** The EnvoyFilters that units were last generated with, which replace current ones that do not fit. */
export interface FormerFilters {
  readonly type: PatchedType;
  /** Absent: all units of the type that no other entry names. */
  readonly units?: readonly Unit[];
  /** Without the EnvoyFilters that the units were not made with. */
  readonly filters: readonly FormerFilter[];
}

/** An EnvoyFilter whose current version does not fit a unit, and the version that is used instead. */
export interface Misfit {
  readonly key: ResourceKey;
  readonly use: 'former version' | 'nothing';
}

interface TelemetryView {
  /** Telemetry documents for the workload, from the widest scope to the narrowest; absent: none. */
  readonly telemetry?: readonly ResourceKey[];
  /** It replaces that of the mesh configuration. */
  readonly tracing?: OwnTracing;
}

interface PolicyView {
  /** What rules make the proxy ask the policy component for; absent: nothing. */
  readonly policy?: PolicyNeeds;
}

interface PatchedView {
  /**
   * The patches for the resources of each type, in the order in which they apply; absent if there are none. Separate by
   * type, so that a patch of listeners does not affect clusters.
   */
  readonly patches?: Readonly<Partial<Record<PatchedType, readonly AppliedFilter[]>>>;
}

/** Outbound part of sidecars: equal for all proxies of a namespace, Sidecar scope and interception mode. */
export interface OutboundView extends PatchedView, TelemetryView {
  readonly part: 'outbound';
  readonly scope: string;
  readonly namespace: string;
  readonly interception: InterceptionMode;
  readonly families: NodeFamilies;
  /** Only the labels that `snapshot.sourceLabels(scope)` has, by key and value. */
  readonly sourceLabels: Readonly<Record<string, string>>;
  /** The labels that are in `snapshot.ruleLabels(scope)`; absent if there are none. */
  readonly ruleLabels?: Readonly<Record<string, string>>;
  /**
   * DNS suffix of the proxy's namespace (`default.svc.cluster.local`), for short domain forms; '' for a proxy with any
   * other suffix, which has no short names.
   */
  readonly dnsDomain: string;
  /**
   * Whether the virtual hosts of large route configurations are in the configuration, or separate resources (VHDS), so
   * that only changed ones have to be sent.
   */
  readonly virtualHosts: 'inline' | 'discovered';
  readonly endpointNames: EndpointNames;
  readonly capabilities: Capabilities;
  /** The cluster whose addresses of services the proxy uses; absent if they are the same as in the local cluster. */
  readonly cluster?: string;
  /** Set if the machine's DNS queries are resolved with the names of the mesh. */
  readonly dns?: {
    /** The class of the proxy's network: names of headless services have the endpoints that it reaches directly. */
    readonly network: string;
    /** As in {@link Placement}; absent: the program's own. */
    readonly cluster?: string;
    /** Set if the proxy itself resolves them. */
    readonly listener?: true;
  };
  /** Set if the proxy's agent merges a name table that arrives in pieces. */
  readonly namePieces?: true;
}

/** A service port served by the workload itself. */
export interface InboundPort {
  readonly targetPort: number;
  readonly servicePort: number;
  readonly portName: string;
  readonly protocol: Protocol;
  readonly hostname: string;
  readonly namespace: string;
}

/** Inbound part of sidecars: equal for all replicas of a workload. */
export interface InboundView extends PatchedView, PolicyView, TelemetryView {
  readonly part: 'inbound';
  readonly scope: string;
  readonly namespace: string;
  readonly interception: InterceptionMode;
  readonly families: NodeFamilies;
  /** As in {@link OutboundView}. */
  readonly ruleLabels?: Readonly<Record<string, string>>;
  /** Sorted by target port, then service. */
  readonly ports: readonly InboundPort[];
  /**
   * Whether clients must, may or cannot use mutual TLS. Modes of ports are only included for served ports, and only if
   * they differ.
   */
  readonly peerAuthentication: PeerAuthentication;
  /** Policies about requests; their content is read from the snapshot. */
  readonly policies: WorkloadPolicies;
  /**
   * The proxy's own addresses: only for interception NONE (listeners bind to them); otherwise empty, so that replicas
   * share the view.
   */
  readonly addresses: readonly string[];
  readonly capabilities: Capabilities;
}

/** The single part of a gateway (`router`). */
export interface GatewayView extends PatchedView, PolicyView, TelemetryView {
  readonly part: 'gateway';
  readonly namespace: string;
  /** As in {@link OutboundView}. */
  readonly ruleLabels?: Readonly<Record<string, string>>;
  /** `namespace/name` of the Gateway resources that select it, in precedence order. */
  readonly gateways: readonly string[];
  /**
   * The `gateways` for which the proxy may get certificates from Secrets, because it has proved that it runs as a
   * workload of this namespace that the Gateway selects. Only Gateways with a server that names a Secret.
   */
  readonly credentialed: readonly string[];
  /**
   * Set if the proxy's agent reads the Secrets of its namespace itself: servers request them from it, and the control
   * plane does not know them.
   */
  readonly agentReadsSecrets?: true;
  /**
   * Whether the proxy may have client certificates from Secrets: it has proved that it runs as a workload that some
   * Gateway selects.
   */
  readonly clientCredentials: boolean;
  /** Set if a Gateway is `isolated`: ports of services without a declared protocol use HTTP/1.1. */
  readonly isolated?: true;
  /** The key pair of its Gateways as clients; the name of a missing Secret if the proxy may not have it. */
  readonly clientKeyPair?: SecretName;
  /** Policies about requests to the gateway's workload, and so to all services bound to it. */
  readonly policies: WorkloadPolicies;
  /** Target port by Gateway server port, if the gateway's own service maps it (80 → 8080). */
  readonly portMap: Readonly<Record<number, number>>;
  /** The proxies in front of it; absent for the setting of the mesh configuration. */
  readonly topology?: GatewayTopology;
  readonly families: NodeFamilies;
  readonly endpointNames: EndpointNames;
  readonly capabilities: Capabilities;
  /** As in {@link OutboundView}. */
  readonly namePieces?: true;
}

export type EnvoyView = OutboundView | InboundView | GatewayView;

/** Clients' part of gRPC applications that speak xDS themselves: equal for all of a namespace and Sidecar scope. */
export interface GrpcClientView {
  readonly part: 'grpc-client';
  readonly scope: string;
  readonly namespace: string;
  readonly families: NodeFamilies;
  /** As in {@link OutboundView}. */
  readonly sourceLabels: Readonly<Record<string, string>>;
  readonly ruleLabels?: Readonly<Record<string, string>>;
  readonly dnsDomain: string;
  readonly endpointNames: 'cluster';
}

/** Servers' part of such applications: equal for all replicas of a workload. */
export interface GrpcServerView {
  readonly part: 'grpc-server';
  readonly scope: string;
  readonly namespace: string;
  /** Sorted by target port, then service. */
  readonly ports: readonly InboundPort[];
  readonly peerAuthentication: PeerAuthentication;
  /** Whether clients in the mesh send mutual TLS to the workload wherever it is accepted. */
  readonly tlsReady: boolean;
  readonly policies: WorkloadPolicies;
}

export type View = EnvoyView | GrpcClientView | GrpcServerView;

/**
 * The location of a proxy, as far as the mesh configuration distinguishes locations. Proxies of one view may have
 * several placements: only endpoints, and clusters that contain their endpoints, read this, so that only these are
 * generated per placement.
 */
export interface Placement {
  /** '' for all networks that have no gateways. */
  readonly network: string;
  /**
   * `region/zone/subzone` if some rule of the mesh reads it, else ''; parts that neither rules nor endpoints have are
   * `*`.
   */
  readonly locality: string;
  /** Labels that `failoverPriority` of some rule compares; absent if there are none. */
  readonly labels?: Readonly<Record<string, string>>;
  /**
   * '' for the program's own cluster, else another one that has endpoints, or {@link OTHER_CLUSTER}: decides the
   * endpoints of cluster-local services.
   */
  readonly cluster: string;
}

/** Represents unknown clusters; not a valid cluster ID. */
export const OTHER_CLUSTER = '*';

/** The placement of proxies whose location makes no difference. */
export const DEFAULT_PLACEMENT: Placement = { network: '', locality: '', cluster: '' };

/**
 * One generated message. `refs` are the names that it makes an Envoy request: EDS service names of a cluster, route
 * configuration names of a listener. (Consistency: EDS ⊆ CDS, RDS ⊆ LDS.) A route configuration with discovered virtual
 * hosts has its own name: the unit of `vhds` that contains them.
 */
export interface GeneratedResource {
  readonly name: string;
  /** Encoded protobuf message (not the Any around it). */
  readonly bytes: Uint8Array;
  /**
   * The same bytes in pieces, the same objects while they are unchanged; absent when the message is encoded as a whole.
   */
  readonly pieces?: readonly Uint8Array[];
  readonly refs: readonly string[];
}

/**
 * The unit of incremental work: generated together and replaced together. Outbound clusters: a host name; listeners: a
 * port (`80`) or `virtual`; routes: the route configuration's name; inbound and gateway parts likewise.
 */
export type Unit = string;

/** Units to generate per type; `all` for every unit of the view. */
export type UnitSelection = Readonly<Partial<Record<GeneratedType, 'all' | ReadonlySet<Unit>>>>;

/** Results by unit: an empty list means that the unit does not exist. */
export type GeneratedUnits = Readonly<Partial<Record<GeneratedType, ReadonlyMap<Unit, readonly GeneratedResource[]>>>>;

/** A unit's resources in each of the requested placements, in their order. */
export type PlacedResources = readonly (readonly GeneratedResource[])[];

/**
 * Problems found while generating, for `ctl_conflict_*` and similar metrics and for /debug/push_status: metric name →
 * what → details.
 */
export interface GenerationFinding {
  readonly metric:
    | 'ctl_conflict_inbound_listener'
    | 'ctl_conflict_outbound_listener_http_over_current_tcp'
    | 'ctl_conflict_outbound_listener_tcp_over_current_http'
    | 'ctl_conflict_outbound_listener_tcp_over_current_tcp'
    | 'ctl_vservice_dup_domain'
    | 'ctl_invalid_out_listeners'
    | 'ctl_duplicate_proxy_clusters'
    | 'ctl_missing_credentials'
    | 'ctl_policy_problems'
    | 'ctl_telemetry_problems'
    | 'ctl_unsupported_by_grpc'
    | 'ctl_refused_inbound_ports';
  /** The unit it was found in, so that the finding is removed when the unit is generated again. */
  readonly type: GeneratedType;
  readonly unit: Unit;
  readonly message: string;
}

export interface PatchProblem {
  /** One line. */
  readonly message: string;
  readonly misfits: readonly Misfit[];
}

/** A generator's output for one unit. No resources: the unit does not exist. */
export interface UnitOutput {
  readonly resources: readonly GeneratedResource[];
  readonly findings: readonly GenerationFinding[];
  /** Present when the unit depends on the placement; `resources` is empty then. */
  readonly placed?: PlacedResources;
  /** Which EnvoyFilters do not fit the unit, and why. */
  readonly problem?: PatchProblem;
}

/**
 * Generator of one type and one part: pure, with the snapshot, the view and the placements as its only inputs. `units`
 * returns all units that exist in the snapshot; `generate` must also accept others, for which it returns nothing.
 */
export interface UnitGenerator<V extends View> {
  readonly units: (snapshot: MeshReader, view: V) => readonly Unit[];
  readonly generate: (snapshot: MeshReader, view: V, unit: Unit, placements: readonly Placement[]) => UnitOutput;
}

/** Facts that were read for a type. */
export interface TypeReads {
  /** For the list of units; undefined if only some units were requested. */
  readonly list: Facts | undefined;
  /** For each selected unit that exists, including those that could not be built. */
  readonly units: ReadonlyMap<Unit, Facts>;
}

/**
 * `units` has an entry for each selected unit that could be built, except for clusters that depend on the placement,
 * which are in `placed`. Where the selection was `all`, a unit that is neither here nor in `failures` does not exist.
 */
export interface GenerationResult {
  readonly units: GeneratedUnits;
  readonly placed: ReadonlyMap<Unit, PlacedResources>;
  readonly reads: Readonly<Partial<Record<GeneratedType, TypeReads>>>;
  readonly findings: readonly GenerationFinding[];
  readonly failures: readonly GenerationFailure[];
}

/**
 * A unit that could not be built and keeps its last good version, or that was built with other EnvoyFilters than the
 * current ones.
 */
export interface GenerationFailure {
  readonly type: GeneratedType;
  readonly unit: Unit;
  /** One line. */
  readonly message: string;
  /** Present if the unit was built nevertheless. */
  readonly misfits?: readonly Misfit[];
}
