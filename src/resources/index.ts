/** Resources: the kinds with their schemas, and the parsing and validation of documents. */
export { apiVersionsOf, isClusterScoped, meshKey, selectorLabels, workloadLabels } from './aliases.ts';
export { unappliedPatch } from './envoy-patches.ts';
export { inCluster } from './fingerprint.ts';
export type { IgnoredDocument } from './ignored.ts';
export { fieldPath, UNKNOWN_FIELD } from './issues.ts';
export { keySetKey, keySetReference, OIDC_REFERENCE } from './key-sets.ts';
export { meshKindNamed, resourceNames } from './kind-names.ts';
export { KEY_SET_SOURCE, makeKeySet } from './make-key-set.ts';
export {
  defaultMeshConfig,
  defaultMeshNetworks,
  type MeshConfig,
  type MeshNetworks,
  type ParsedConfig,
  parseMeshConfig,
  parseMeshNetworks,
  parseProxyConfig,
} from './mesh-config.ts';
export { type Locate, type ParsedResource, parseResource } from './parse.ts';
export { resembles } from './resembles.ts';
export { salvaged } from './salvage.ts';
export { PATCHED_MESSAGES } from './schema/envoy-filter.ts';
export { coreOf, type SecretField, secretFieldOf } from './schema/secret.ts';
export { SCHEMAS, type WorkloadEntrySpec } from './schemas.ts';
export { isSecurityKind, substituteResource } from './substitute.ts';
export {
  ALL_KINDS,
  type AnyResource,
  CLUSTER_KINDS,
  CORE_KINDS,
  type CoreKind,
  type Kind,
  keyOf,
  type ListedEvent,
  MESH_KINDS,
  type MeshKind,
  type Resource,
  type ResourceChange,
  type ResourceEvent,
  type ResourceKey,
  type ResourceList,
  type ResourceMeta,
  type ResourceOrigin,
  type ResourceProblem,
  resourceKey,
  type Substitute,
} from './types.ts';
export { matchesRegex } from './validate/values.ts';
