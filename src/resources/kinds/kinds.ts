/** The kinds of resources and how they are grouped: the one table from which everything about kinds is derived. */

/** Kinds of the policy component (`config.mesh.io`), which write their names in lower case. */
export const POLICY_KINDS = ['adapter', 'attributemanifest', 'handler', 'instance', 'rule', 'template'] as const;

/** Kinds of the mesh's own API groups; the content is the object's `spec`. */
export const MESH_KINDS = [
  'AuthorizationPolicy',
  'DestinationRule',
  'EnvoyFilter',
  'Gateway',
  'PeerAuthentication',
  'ProxyConfig',
  'RequestAuthentication',
  'ServiceEntry',
  'Sidecar',
  'Telemetry',
  'VirtualService',
  'WorkloadEntry',
  'WorkloadGroup',
  ...POLICY_KINDS,
] as const;

/** Kinds that only restrict: a refused document must not leave its workloads unprotected (see `substitute.ts`). */
export const SECURITY_KINDS = ['AuthorizationPolicy', 'PeerAuthentication', 'RequestAuthentication'] as const;

/**
 * Kinds of which a refused document has a substitute, if no good version of it is known. Without the other documents of
 * the policy component, rules that need them refuse requests anyway.
 */
export const SUBSTITUTED_KINDS = [...SECURITY_KINDS, 'rule'] as const;

/** Kinds whose refused documents must not widen access: their last good versions are kept over restarts. */
export const GUARDED_KINDS = [...SECURITY_KINDS, ...POLICY_KINDS] as const;

/** Kinds of the orchestrator; the content is the object without `apiVersion`, `kind` and `metadata`. */
export const CORE_KINDS = [
  'ConfigMap',
  'EndpointSlice',
  'Endpoints',
  'Namespace',
  'Node',
  'Pod',
  'Secret',
  'Service',
  'ServiceAccount',
] as const;

/**
 * Kinds of the Gateway API (`gateway.networking.k8s.io`); the content is the object's `spec`. They are not part of a
 * snapshot: `src/translators` derives mesh kinds from them. The API's kind `Gateway` is `KubernetesGateway` here.
 */
export const SERVICE_API_KINDS = [
  'BackendTLSPolicy',
  'GRPCRoute',
  'GatewayClass',
  'HTTPRoute',
  'KubernetesGateway',
  'ReferenceGrant',
  'TCPRoute',
  'TLSRoute',
] as const;

/**
 * Kinds of Ingress (`networking.k8s.io`); the content is the object's `spec`. They are not part of a snapshot:
 * `src/translators` derives mesh kinds from them.
 */
export const INGRESS_KINDS = ['Ingress', 'IngressClass'] as const;

/** Kinds that the program itself creates from references in other resources; no file can have them. */
export const DERIVED_KINDS = ['JsonWebKeySet'] as const;

/** Every kind of resource. */
export const ALL_KINDS = [
  ...MESH_KINDS,
  ...CORE_KINDS,
  ...SERVICE_API_KINDS,
  ...INGRESS_KINDS,
  ...DERIVED_KINDS,
] as const;

export type MeshKind = (typeof MESH_KINDS)[number];
export type PolicyKind = (typeof POLICY_KINDS)[number];
export type SubstitutedKind = (typeof SUBSTITUTED_KINDS)[number];
export type SecurityKind = (typeof SECURITY_KINDS)[number];
export type CoreKind = (typeof CORE_KINDS)[number];
export type IngressKind = (typeof INGRESS_KINDS)[number];
/**
 * The access to the objects of a name, if only referenced objects are read: they are read, not read yet, or the program
 * has no permission to read them.
 */
export type ObjectAccess = 'read' | 'pending' | 'forbidden';

export type ServiceApiKind = (typeof SERVICE_API_KINDS)[number];
export type Kind = (typeof ALL_KINDS)[number];

/**
 * Kinds about what runs in one cluster. Those of different clusters are different resources, whatever their names:
 * their keys name the cluster. Of every other kind, one document of a name is in force in the whole mesh.
 */
export const CLUSTER_KINDS = ['EndpointSlice', 'Endpoints', 'Node', 'Pod', 'Service', 'ServiceAccount'] as const;
