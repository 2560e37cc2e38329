/** Resources: the kinds with their schemas, and the parsing and validation of documents. */
export { apiVersionsOf, isClusterScoped, workloadLabels } from './aliases.ts';
export { authoritiesOf, keyPairOf, secretBytes } from './credentials.ts';
export { unappliedPatch } from './envoy-patches.ts';
export { inCluster } from './fingerprint.ts';
export type { IgnoredDocument } from './ignored.ts';
export { usableInlineKeys } from './inline-keys.ts';
export { fieldPath, UNKNOWN_FIELD } from './issues.ts';
export { keySetKey, keySetReference, OIDC_REFERENCE } from './key-sets.ts';
export { meshKindNamed, resourceNames } from './kind-names.ts';
export { KEY_SET_SOURCE, makeKeySet } from './make-key-set.ts';
export {
  defaultMeshConfig,
  defaultMeshNetworks,
  type ExtensionProvider,
  type MeshConfig,
  type MeshNetworks,
  type ParsedConfig,
  parseMeshConfig,
  parseMeshNetworks,
  parseProxyConfig,
} from './mesh-config.ts';
export { type Locate, type ParsedResource, parseResource } from './parse.ts';
export { PATCHED_MESSAGES } from './patched-messages.ts';
export { resembles } from './resembles.ts';
export { salvaged } from './salvage.ts';
export { duration, headerMatch, stringMatch } from './schema/common.ts';
export { DURATION_PATTERN } from './schema/duration.ts';
export { coreOf, type SecretField, secretFieldOf } from './schema/secret.ts';
export type {
  AuthorizationCondition,
  AuthorizationOperation,
  AuthorizationRule,
  AuthorizationSource,
} from './schema/security.ts';
export {
  type ClientTlsSettings,
  type ConnectionPool,
  type ConsistentHash,
  type CorsPolicy,
  type Destination,
  type EnvoyConfigMatch,
  type EnvoyConfigPatch,
  type FaultAbort,
  type FaultDelay,
  type GatewayServer,
  type HeaderMatch,
  type HeaderOperations,
  type HttpDirectResponse,
  type HttpHeaders,
  type HttpMatch,
  type HttpRedirect,
  type HttpRetries,
  type HttpRewrite,
  type HttpRoute,
  type HttpRouteDestination,
  type JwtRule,
  type L4Match,
  type LoadBalancerSettings,
  type LocalityLbSetting,
  type OutlierDetection,
  type Percent,
  type RouteDestination,
  SCHEMAS,
  type SecretContent,
  type SecretName,
  type ServerTlsSettings,
  type SidecarIngress,
  type StringMatch,
  type TcpKeepalive,
  type TrafficPolicy,
  type WorkloadEntrySpec,
} from './schemas.ts';
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
export { compileRegex } from './validate/values.ts';
