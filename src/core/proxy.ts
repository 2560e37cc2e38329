/** A connected proxy as its node describes it: parsed once (`xds/request/node.ts`), plain data everywhere else. */
import type { Identity } from './identity.ts';
import type { OwnTracing } from './tracing.ts';

/**
 * Name of the static cluster of a bootstrap through which an Envoy fetches the secrets `default` and `ROOTCA` from its
 * agent. Envoy refuses configuration that names a cluster it does not have, so a proxy announces the cluster: node
 * metadata {@link SDS_CLUSTER_METADATA} with this name as its value. Bootstraps of Istio's agent have a cluster of this
 * name too.
 */
export const SDS_CLUSTER = 'sds-grpc';
/**
 * The secret with the roots that verify the control plane, used if the roots for peers also include other trust
 * domains. An agent with certificates of the SPIFFE Workload API serves it to its Envoy.
 */
export const CONTROL_PLANE_ROOTS = 'CONTROLPLANE';

/**
 * Name of the static cluster of a bootstrap that leads to the access log service of the proxy configuration
 * (`envoyAccessLogService`). Bootstraps of Istio's agent have a cluster of this name too.
 */
export const ACCESS_LOG_CLUSTER = 'envoy_accesslog_service';

/**
 * Name of the static cluster of a bootstrap that leads to the control plane. Bootstraps of Istio's agent have a cluster
 * of this name too.
 */
export const XDS_CLUSTER = 'xds-grpc';

/**
 * Key of the gRPC metadata in which an Envoy says for which namespace it asks for decisions of the policy component and
 * sends records. It counts on loopback addresses only: elsewhere the certificate says it.
 */
export const POLICY_NAMESPACE_METADATA = 'mesh-policy-namespace';

/** The methods of the policy component: Envoy's services for decisions (ext_authz) and for access logs. */
export const POLICY_METHODS = {
  check: '/envoy.service.auth.v3.Authorization/Check',
  records: '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs',
} as const;

/**
 * Name of the static cluster of a bootstrap that leads to the control plane, and verifies the SPIFFE ID of the policy
 * component (--policyIdentity). A proxy with this cluster announces it: node metadata {@link POLICY_CLUSTER_METADATA}
 * with this name as its value.
 */
export const POLICY_CLUSTER = 'policy-grpc';
export const POLICY_CLUSTER_METADATA = 'MESH_POLICY_CLUSTER';

/** Key of the node metadata by which a proxy announces that it can fetch mesh certificates. */
export const SDS_CLUSTER_METADATA = 'MESH_SDS_CLUSTER';

/** Key of the node metadata by which a proxy announces that its agent answers the DNS queries of the machine. */
export const DNS_AGENT_METADATA = 'DNS_AGENT';

/**
 * Key of the node metadata by which a proxy announces that its agent merges a name table that arrives in pieces. A
 * control plane that does not know it sends one table.
 */
export const NAME_PIECES_METADATA = 'NAME_TABLE_PIECES';

/**
 * Names of the listeners that receive redirected connections; every sidecar whose interception is not NONE gets both.
 * Istio's proxies have them under the same names.
 */
export const VIRTUAL_OUTBOUND_LISTENER = 'virtualOutbound';
export const VIRTUAL_INBOUND_LISTENER = 'virtualInbound';

/** Name of the listener that answers DNS queries that are redirected to Envoy. */
export const DNS_LISTENER = 'dns';

/**
 * Node metadata of a gRPC application that speaks xDS itself ("proxyless"), as Istio's agent writes it into the
 * bootstrap of such applications.
 */
export const GENERATOR_METADATA = 'GENERATOR';
export const GRPC_GENERATOR = 'grpc';

/**
 * Prefixes of the names of listeners that gRPC servers request, followed by the server's address. Istio's bootstraps
 * have the second.
 */
export const GRPC_SERVER_LISTENERS = ['xds.mesh.io/grpc/lds/inbound/', 'xds.istio.io/grpc/lds/inbound/'] as const;

/** Name of the provider in a gRPC bootstrap that has the application's certificate and the roots of the mesh. */
export const GRPC_CERTIFICATE_PROVIDER = 'default';

/**
 * Key of the node metadata by which a gateway announces that its agent reads the Secrets of its namespace and serves
 * them. Istio's gateways use the same key.
 */
export const USER_SDS_METADATA = 'USER_SDS';

/**
 * Key of the node metadata with the labels that the owner of a proxy has added to those of its Pod. Istio's proxies
 * have them under the same key.
 */
export const STATIC_LABELS_METADATA = 'STATIC_LABELS';

/** The strings of a node's metadata, encoded as one string, because they are rarely read. */
export function metadataText(strings: ReadonlyMap<string, string>): string {
  return strings.size === 0 ? '' : JSON.stringify([...strings]);
}

export function parseMetadata(text: string): ReadonlyMap<string, string> {
  return new Map(text === '' ? [] : (JSON.parse(text) as [string, string][]));
}

/** Files of the proxy's machine for TLS to servers, in place of those that DestinationRules name. */
export interface ClientFiles {
  readonly certChain?: string;
  readonly key?: string;
  readonly roots?: string;
}

/** The proxies in front of a gateway; see `gatewayTopology` of the proxy configuration. */
export interface GatewayTopology {
  readonly numTrustedProxies?: number | undefined;
  readonly forwardClientCertDetails?:
    | 'UNDEFINED'
    | 'SANITIZE'
    | 'FORWARD_ONLY'
    | 'APPEND_FORWARD'
    | 'SANITIZE_SET'
    | 'ALWAYS_FORWARD_ONLY'
    | undefined;
  /** Connections begin with a header of the PROXY protocol. */
  readonly proxyProtocol?: object | undefined;
}

/** Options that the owner of a proxy sets in its node metadata: see `xds/request/node-options.ts`. */
/**
 * What sidecars get of the mesh: everything that they see, what they ask for, or that and what other proxies with the
 * same configuration have asked for.
 */
export const SIDECAR_CONFIGURATIONS = ['all', 'on-demand', 'learned'] as const;
export type SidecarConfiguration = (typeof SIDECAR_CONFIGURATIONS)[number];

export interface ProxyOptions {
  /** Overrides CTL_SIDECAR_CONFIGURATION. */
  readonly configuration?: SidecarConfiguration;
  /** Requests of HTTP/1.0 are accepted. */
  readonly http10?: true;
  /** How long a connection without requests stays open, milliseconds. */
  readonly idleTimeoutMs?: number;
  readonly clientFiles?: ClientFiles;
  /** Overrides the setting of the mesh configuration. */
  readonly gatewayTopology?: GatewayTopology;
}

export interface ProxyNode {
  /** The full node id: `sidecar~<ip>~<pod>.<namespace>~<namespace>.svc.cluster.local`. */
  readonly id: string;
  readonly type: 'sidecar' | 'router';
  /** The proxy's addresses: first the address in its ID, then INSTANCE_IPS. Never empty for sidecars. */
  readonly addresses: readonly string[];
  /** `<pod>.<namespace>` of the id. */
  readonly workload: string;
  readonly namespace: string;
  readonly dnsDomain: string;
  /**
   * In a session, those of its workload in the registry, if {@link labelsOf} is set; otherwise the ones that the node
   * states.
   */
  readonly labels: Readonly<Record<string, string>>;
  /** The kind of its workload, if the registry has that, or had it while the proxy was connected. */
  readonly labelsOf?: 'Pod' | 'WorkloadEntry';
  /** The labels that the node states; set where {@link labelsOf} is, and otherwise equal to {@link labels}. */
  readonly statedLabels?: Readonly<Record<string, string>>;
  /** Labels that it has in addition to those of its workload ({@link STATIC_LABELS_METADATA}); absent: none. */
  readonly staticLabels?: Readonly<Record<string, string>>;
  readonly interception: 'REDIRECT' | 'TPROXY' | 'NONE';
  /** The cluster that the credential proves if it is bound to a Pod; otherwise the one that the node states. */
  readonly clusterId: string;
  readonly network: string;
  /** The account that the node states, else the one that its credential proves; '' without either. */
  readonly serviceAccount: string;
  /**
   * The identity that the stream's credential proves; undefined on addresses that require none. All other fields are
   * claims of the proxy, unless their comment says otherwise.
   */
  readonly identity: Identity | undefined;
  /** `region/zone/subzone`; '' when not sent. */
  readonly locality: string;
  /** Names of `node.extensions`, of those that generation checks; undefined when the node sent none. */
  readonly extensions: readonly string[] | undefined;
  /** `1.40.0` of user_agent_build_version, or ''. */
  readonly version: string;
  /** MESH_VERSION / ISTIO_VERSION of the metadata, for tools; '' when absent. */
  readonly meshVersion: string;
  /** The short strings of its metadata, by which EnvoyFilters may select it: see {@link parseMetadata}. */
  readonly metadata: string;
  /** Whether its route configurations may leave their virtual hosts to VHDS, on the stream that it opened. */
  readonly discoversVirtualHosts: boolean;
  /**
   * Whether its clusters request their endpoints by short names, because the proxy repeats all of them on its stream.
   */
  readonly shortEndpointNames: boolean;
  /** Whether the proxy can fetch mesh certificates: without them it neither sends nor accepts mutual TLS. */
  readonly sds: boolean;
  /** Set for a gateway whose agent serves the Secrets of its namespace by the names of `core/tls-secrets.ts`. */
  readonly agentReadsSecrets?: true;
  /** Name of the WorkloadGroup of its namespace as which it registers itself (AUTO_REGISTER_GROUP); absent: none. */
  readonly workloadGroup?: string;
  /** Set if Istio's agent serves the secrets: it supports fewer names of file secrets. */
  readonly istioAgent?: true;
  /** Set if it reaches the policy component through {@link POLICY_CLUSTER}. */
  readonly policyCluster?: true;
  /**
   * Which program answers the DNS queries of its machine with the names of the mesh: one that subscribes to the name
   * table, or the proxy's own listener. Absent: none. Such a proxy sees allocated addresses of services that have none.
   */
  readonly dns?: 'agent' | 'envoy';
  /** Set if its agent merges a name table that arrives in pieces, on the stream that it opened. */
  readonly mergesNames?: true;
  /** `tracing` of the proxy's own configuration (metadata PROXY_CONFIG), if set. */
  readonly tracing?: OwnTracing;
  /** Set for a gRPC application that speaks xDS itself and has no Envoy. */
  readonly proxyless?: true;
  /** Absent if the node sets no options. */
  readonly options?: ProxyOptions;
}

/** `<pod>` of the node's ID; names of Pods may contain dots. */
export function podNameOf({ workload, namespace }: Pick<ProxyNode, 'workload' | 'namespace'>): string {
  const end = `.${namespace}`;
  return workload.endsWith(end) ? workload.slice(0, -end.length) : workload;
}

/**
 * The same proxy on a stream with state of the world. Virtual host discovery and name tables in pieces are only used
 * with Delta: state of the world would send all virtual hosts and all pieces with each change. It makes the proxy
 * repeat the names of all its endpoints with each change, so they are short.
 */
export function withStateOfTheWorld({ mergesNames, ...node }: ProxyNode): ProxyNode {
  return { ...node, discoversVirtualHosts: false, shortEndpointNames: true };
}
