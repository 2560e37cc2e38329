/** The kinds that are read from an API server, and how it serves them. */
import { apiVersionOf, type ResourceType } from '../../kubernetes/index.ts';
import {
  apiVersionsOf,
  type CoreKind,
  isSecurityKind,
  type Kind,
  MESH_KINDS,
  type MeshKind,
  resourceNames,
} from '../../resources/index.ts';

/** A kind of the mesh as an API server serves it. */
export interface ServedType extends ResourceType {
  readonly kind: Kind;
}

function core(kind: CoreKind, plural: string, namespaced = true): ServedType {
  return { group: '', version: 'v1', plural, kind, namespaced };
}

const NAMESPACES = core('Namespace', 'namespaces', false);
const ENDPOINTS = core('Endpoints', 'endpoints');
const ENDPOINT_SLICES: ServedType = {
  group: 'discovery.k8s.io',
  version: 'v1',
  plural: 'endpointslices',
  kind: 'EndpointSlice',
  namespaced: true,
};

/** Kubernetes' own kinds. Only one of the two kinds of endpoints is used, so only that one is read. */
export function coreTypes(useEndpointSlice: boolean): readonly ServedType[] {
  return [NAMESPACES, ...workloadTypes(useEndpointSlice)];
}

/** The kinds of services and workloads. */
export function workloadTypes(useEndpointSlice: boolean): readonly ServedType[] {
  return [
    core('Node', 'nodes', false),
    core('Pod', 'pods'),
    core('Service', 'services'),
    core('ServiceAccount', 'serviceaccounts'),
    useEndpointSlice ? ENDPOINT_SLICES : ENDPOINTS,
  ];
}

/** Read one by one, by name. */
export const SECRETS = core('Secret', 'secrets');

export const DEFINITIONS: ResourceType = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
  metadataOnly: true,
};

const API_VERSIONS: ReadonlyMap<MeshKind, readonly string[]> = new Map(
  MESH_KINDS.map((kind) => [kind, apiVersionsOf(kind)]),
);

/** Groups in which a server may have kinds of the mesh, the mesh's own first. */
export const MESH_GROUPS: readonly string[] = [
  ...new Set([...API_VERSIONS.values()].flat().map((apiVersion) => apiVersion.split('/')[0] ?? '')),
].sort((a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1));

/** The order of documents of one name: those of the mesh's own groups count first. */
export function rankOf(group: string): number {
  return group.endsWith('.mesh.io') ? 0 : 1;
}

/** Whether a custom resource definition, named `<plural>.<group>`, may define a kind of the mesh. */
export function isMeshDefinition(name: string): boolean {
  return MESH_GROUPS.includes(name.slice(name.indexOf('.') + 1));
}

/** Names of the kinds of policies in URLs. */
const POLICY_PLURALS: ReadonlySet<string> = new Set(
  MESH_KINDS.filter(isSecurityKind).map((kind) => resourceNames(kind).plural),
);

/** Whether a kind of a mesh's group, named `<plural>.<group>`, is one of policies. */
export function isPolicyDefinition(name: string): boolean {
  return POLICY_PLURALS.has(name.slice(0, name.indexOf('.')));
}

/** The kind of the mesh that a kind of a server is; undefined where it is none, or of a version that is not read. */
export function meshKindOf(type: ResourceType): MeshKind | undefined {
  const apiVersion = apiVersionOf(type);
  return MESH_KINDS.find((kind) => kind === type.kind && API_VERSIONS.get(kind)?.includes(apiVersion));
}
