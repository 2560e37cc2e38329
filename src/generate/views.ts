/**
 * Views and placements. A view is the equivalence class of proxies that share one part of their configuration; a
 * generator gets the snapshot and the view, never a proxy, so whatever it reads of a proxy must be part of the view.
 */
import type { ClientFiles, GatewayTopology, SidecarConfiguration } from '../core/proxy.ts';
import type { OwnTracing } from '../core/tracing.ts';
import type { PeerAuthentication, Protocol, WorkloadPolicies } from '../model/index.ts';
import type { ResourceKey, SecretName } from '../resources/index.ts';
import type { PolicyNeeds } from './indexes/index.ts';

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
