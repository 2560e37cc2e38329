/** The kinds that are read from an API server, and how it serves them. */
import { apiVersionOf, type KubernetesObject, type ResourceType, v1Type } from '../../kubernetes/index.ts';
import {
  apiVersionsOf,
  isSecurityKind,
  type Kind,
  MESH_KINDS,
  type MeshKind,
  resourceNames,
  SERVICE_API_KINDS,
  type ServiceApiKind,
  writtenKind,
} from '../../resources/index.ts';

/** A kind as an API server serves it. `kind` is the program's name of it: see `writtenKind`. */
export interface ServedType extends ResourceType {
  readonly kind: Kind;
}

const NAMESPACES = v1Type('', 'Namespace', 'namespaces', { namespaced: false });
const ENDPOINTS = v1Type('', 'Endpoints', 'endpoints');
const ENDPOINT_SLICES: ServedType = v1Type('discovery.k8s.io', 'EndpointSlice', 'endpointslices');

/** Kubernetes' own kinds. Only one of the two kinds of endpoints is used, so only that one is read. */
export function coreTypes(useEndpointSlice: boolean): readonly ServedType[] {
  return [NAMESPACES, ...workloadTypes(useEndpointSlice)];
}

/** The kinds of services and workloads. */
export function workloadTypes(useEndpointSlice: boolean): readonly ServedType[] {
  return [
    v1Type('', 'Node', 'nodes', { namespaced: false }),
    v1Type('', 'Pod', 'pods'),
    v1Type('', 'Service', 'services'),
    v1Type('', 'ServiceAccount', 'serviceaccounts'),
    useEndpointSlice ? ENDPOINT_SLICES : ENDPOINTS,
  ];
}

/** Ingress, and IngressClass, which decides which controller serves it. */
export const INGRESS_TYPES: readonly ServedType[] = [
  v1Type('networking.k8s.io', 'Ingress', 'ingresses'),
  v1Type('networking.k8s.io', 'IngressClass', 'ingressclasses', { namespaced: false }),
];

export const DEFINITIONS = v1Type('apiextensions.k8s.io', 'CustomResourceDefinition', 'customresourcedefinitions', {
  namespaced: false,
  metadataOnly: true,
});

/** Kinds of which the controllers read the `spec` in addition to the status. */
const SPEC_RETAINED: ReadonlySet<Kind> = new Set(['KubernetesGateway', 'GatewayClass']);
const STATUS_RETAINED: ReadonlySet<Kind> = new Set([...SERVICE_API_KINDS, 'Ingress']);

/**
 * The part of each object that is retained for the controllers of this program, which follow the same kinds and start
 * when this replica leads: metadata of Namespaces, and the status of kinds whose status is written. Undefined if
 * nothing is retained.
 */
export function retainedOf({ kind }: ServedType): ((object: KubernetesObject) => KubernetesObject) | undefined {
  if (kind === 'Namespace') return ({ apiVersion, kind, metadata }) => ({ apiVersion, kind, metadata });
  if (!STATUS_RETAINED.has(kind)) return undefined;
  const hasSpec = SPEC_RETAINED.has(kind);
  return ({ apiVersion, kind, metadata, status, spec }) => {
    return { apiVersion, kind, metadata, status, ...(hasSpec ? { spec } : {}) };
  };
}

type DefinedKind = MeshKind | ServiceApiKind;

/** The order of precedence of documents with the same name: the mesh's own groups come first. */
export function rankOf(group: string): number {
  return group.endsWith('.mesh.io') ? 0 : 1;
}

/** The kinds with custom resource definitions that are read. */
export interface DefinedKinds {
  /** Their groups, the mesh's own first. */
  readonly groups: readonly string[];
  /** Whether a definition, named `<plural>.<group>`, may define one of them. */
  isDefinition(name: string): boolean;
  /** The program's kind for a kind of the API server; undefined if the kind or version is not read. */
  kindOf(type: ResourceType): DefinedKind | undefined;
}

export function definedKinds(kinds: readonly DefinedKind[]): DefinedKinds {
  const byType = new Map(
    kinds.flatMap((kind) => apiVersionsOf(kind).map((version) => [`${version}/${writtenKind(kind)}`, kind] as const)),
  );
  const groups = [...new Set([...byType.keys()].map((type) => type.split('/')[0] ?? ''))].sort(
    (a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1),
  );
  return {
    groups,
    isDefinition: (name) => groups.includes(name.slice(name.indexOf('.') + 1)),
    kindOf: (type) => byType.get(`${apiVersionOf(type)}/${type.kind}`),
  };
}

/** Names of the kinds of policies in URLs. */
const POLICY_PLURALS: ReadonlySet<string> = new Set(
  MESH_KINDS.filter(isSecurityKind).map((kind) => resourceNames(kind).plural),
);

/** Whether a custom resource definition of the mesh, named `<plural>.<group>`, defines a kind of policies. */
export function isPolicyDefinition(name: string): boolean {
  return POLICY_PLURALS.has(name.slice(0, name.indexOf('.')));
}
