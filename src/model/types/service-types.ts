/** Services, their endpoints, and the policies of workloads: part of the snapshot's data (`types.ts`). */
import type { ResourceKey } from '../../resources/index.ts';

/**
 * Protocol of a service port. `Unsupported` means that none was given: sniffed where sniffing is on, else plain TCP.
 */
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
  | 'Thrift'
  | 'Unsupported';

export interface ServicePort {
  readonly name: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/**
 * How a client reaches the endpoints (Istio's `Resolution`): `eds` client-side load balancing over known endpoints,
 * `dns` the proxy resolves names, `dynamic` it resolves the name that a client requests below a wildcard, `passthrough`
 * the original destination.
 */
export type Resolution = 'eds' | 'dns' | 'dynamic' | 'passthrough';

/** `namespace/hostname`: one host may be defined in several namespaces. */
export type ServiceKey = string;

/** The addresses of a service for the proxies of one cluster. */
export interface ClusterAddresses {
  readonly cluster: string;
  /** Empty if the service has no address in this cluster. */
  readonly addresses: readonly string[];
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
   * The other clusters whose proxies use other addresses, in the order of their names: see `cluster-addresses.ts`.
   * Absent where there are none.
   */
  readonly clusterAddresses?: readonly ClusterAddresses[];
  /**
   * The addresses for proxies whose machines get the names of the mesh from DNS; absent where they are the same: see
   * `allocated-addresses.ts`.
   */
  readonly allocatedAddresses?: readonly string[];
  /**
   * Set if all of its addresses belong to other Services in the cluster of the proxies that see it. Other services
   * without an address share the listeners of their ports; this one has none for connections.
   */
  readonly unaddressed?: true;
  readonly resolution: Resolution;
  /** A headless Service (without a cluster IP): clients connect to the addresses of its Pods. */
  readonly headless: boolean;
  /** ExternalName target, when it is one. */
  readonly externalName?: string;
  /** ServiceEntry `MESH_EXTERNAL`. */
  readonly meshExternal: boolean;
  /** Normalised: `*` all namespaces, `.` its own, `~` none, or names. Never empty (mesh defaults are applied). */
  readonly exportTo: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly subjectAltNames: readonly string[];
  /** The registry that defines it: `Orchestrator`, or `External` for ServiceEntries. */
  readonly registry: 'Orchestrator' | 'External';
  /** Short name of an orchestrator service (`reviews`), for domain forms; absent for service entries. */
  readonly shortName?: string;
  /** The defining resource. */
  readonly source: ResourceKey;
  /** Creation time, where the oldest definition takes precedence. */
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
  /** The cluster that the endpoint is in; absent for the cluster of this program. */
  readonly cluster?: string;
  /** Undefined means 1. */
  readonly weight: number | undefined;
  readonly serviceAccount: string;
  readonly health: Health;
  /** Namespace and name of the workload behind it (pod or workload entry), when known. */
  readonly workload: { readonly namespace: string; readonly name: string } | undefined;
  /**
   * Set if the address belongs to a node or to another namespace than the service: connections from third namespaces to
   * the address itself are then not connections to the service.
   */
  readonly addressOfOthers?: true;
  /** Host name of a stateful-set pod (`web-0`), for headless per-pod addressing. */
  readonly hostname: string;
  /**
   * True when it accepts mesh mutual TLS: the workload has a proxy (label `security.mesh.io/tlsMode: mesh`, or a
   * workload entry with a service account and without that label), and no peer authentication policy disables mutual
   * TLS at this port.
   */
  readonly tlsReady: boolean;
}

/** The effective mode of PeerAuthentication: unset modes are inherited already. */
export type MutualTlsMode = 'STRICT' | 'PERMISSIVE' | 'DISABLE';

/** The mutual TLS modes that peer authentication policies require of a workload. */
export interface PeerAuthentication {
  readonly mode: MutualTlsMode;
  /** Container ports with a mode of their own. */
  readonly ports: Readonly<Record<number, MutualTlsMode>>;
}

/** Keys of the policies about requests that apply to a workload, in order of precedence. All of them apply. */
export interface WorkloadPolicies {
  readonly authentication: readonly ResourceKey[];
  readonly authorization: readonly ResourceKey[];
}

/** Data about the workloads of a service that clients need for mesh mutual TLS. */
export interface ServicePeers {
  /**
   * `namespace/serviceAccount`s, sorted. The account is empty for a workload that accepts mutual TLS without naming it.
   */
  readonly accounts: readonly string[];
  /** Service port name → whether all or some of its endpoints accept it; ports without such endpoints are absent. */
  readonly ready: Readonly<Record<string, 'all' | 'some'>>;
}

/**
 * A service port that a proxy itself serves, found by the proxy's addresses: the input of its inbound configuration.
 */
export interface BoundInstance {
  readonly service: ServiceKey;
  readonly hostname: string;
  readonly port: ServicePort;
  readonly endpoint: Endpoint;
}

/** A gateway through which endpoints of other networks are reached. */
export interface NetworkGateway {
  /** An IP address. */
  readonly address: string;
  readonly port: number;
}

/**
 * The gateways by network. An empty list means that no address of a gateway is known: proxies of other networks cannot
 * reach the network. A network without configured gateways is absent and is reached directly.
 */
export type NetworkGateways = ReadonlyMap<string, readonly NetworkGateway[]>;
