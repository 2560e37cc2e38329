/** Resources: the kinds with their schemas, and the parsing and validation of documents. */

export { type CheckedDocument, checkDocument, type FieldMessage } from './check.ts';
export { isDryRun } from './dry-run.ts';
export { unappliedPatch } from './envoy-patches.ts';
export { keySetKey, keySetReference, OIDC_REFERENCE } from './key-sets.ts';
export {
  apiVersionsOf,
  INGRESS_CLASS_ANNOTATION,
  isClusterScoped,
  istioKey,
  kindOf,
  meshKey,
  meshVariable,
  meshVariables,
  typeUrlOf,
  workloadLabels,
  writtenKind,
} from './kinds/aliases.ts';
export { meshKindNamed, resourceNames } from './kinds/kind-names.ts';
export type { ObjectAccess } from './kinds/kinds.ts';
export {
  type AdapterParams,
  type AttributeManifestSpec,
  type BackendReference,
  type BackendTlsPolicySpec,
  type ClientTlsSettings,
  type ConfigMapContent,
  type ConnectionPool,
  type ConnectionRule,
  type ConsistentHash,
  type ContentOf,
  type Cors,
  type CorsPolicy,
  type Destination,
  type EnvoyConfigMatch,
  type EnvoyConfigPatch,
  type FaultAbort,
  type FaultDelay,
  type FilteredBackend,
  type FrontendTls,
  type GatewayListener,
  type GatewayServer,
  type GatewaySpec,
  type GrpcRouteMatch,
  type GrpcRouteRule,
  type HeaderFilter,
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
  type HttpRouteMatch,
  type HttpRouteRule,
  type IngressBackend,
  type IngressPath,
  type JwtRule,
  type KubernetesGatewaySpec,
  type L4Match,
  type LabelSelector,
  type LoadBalancerSettings,
  type LocalityLbSetting,
  type MetricsEntry,
  type NamedMatch,
  type ObjectReference,
  type OutlierDetection,
  type ParentReference,
  type PathModifier,
  type Percent,
  type PolicyAdapterSpec,
  type PolicyHandlerSpec,
  type PolicyHeaderOperation,
  type PolicyInstanceSpec,
  type PolicyRuleSpec,
  type PolicyTemplateSpec,
  type ProxyProtocol,
  type ReadinessProbe,
  type RequestMirror,
  type RequestRedirect,
  type RetryBudget,
  type RouteDestination,
  type RouteFilter,
  type RouteGroupKind,
  SCHEMAS,
  type SecretContent,
  type SecretName,
  type ServerTlsSettings,
  type SidecarIngress,
  type StringMatch,
  type TcpKeepalive,
  type TcpRoute,
  type TelemetrySpec,
  type TemplateParams,
  type TlsRoute,
  type TrafficPolicy,
  type Tunnel,
  type UrlRewrite,
  type VirtualServiceSpec,
  type WeightedBackend,
  type WorkloadEntrySpec,
  type WorkloadGroupSpec,
} from './kinds/schemas.ts';
export {
  ALL_KINDS,
  type AnyResource,
  CLUSTER_KINDS,
  CORE_KINDS,
  type CoreKind,
  eventId,
  INGRESS_KINDS,
  type Kind,
  keyOf,
  type ListedEvent,
  MESH_KINDS,
  type MeshKind,
  POLICY_KINDS,
  type PolicyKind,
  type Resource,
  type ResourceChange,
  type ResourceEvent,
  type ResourceKey,
  type ResourceList,
  type ResourceMeta,
  type ResourceOrigin,
  type ResourceProblem,
  type ResourceWarning,
  resourceKey,
  SERVICE_API_KINDS,
  type ServiceApiKind,
  type Substitute,
} from './kinds/types.ts';
export { type DocumentLimits, type DocumentSettings, documentLimits } from './limits.ts';
export { KEY_SET_SOURCE, makeKeySet } from './make-key-set.ts';
export {
  type ConfigSourceAddress,
  type ConfigSourceSettings,
  defaultMeshConfig,
  defaultMeshNetworks,
  type ExtensionProvider,
  type MeshConfig,
  type MeshNetwork,
  type MeshNetworks,
  type ParsedConfig,
  type ProxyConfig,
  parseConfigSource,
  parseMeshConfig,
  parseMeshNetworks,
  parseProxyConfig,
} from './mesh-config.ts';
export { type MeshUpdate, mergedUpdate, NO_EVENT, type ResolvedHosts } from './mesh-update.ts';
export { fingerprintOf, inCluster } from './parsing/fingerprint.ts';
export { type IgnoredDocument, ignoredDocument } from './parsing/ignored.ts';
export { usableInlineKeys } from './parsing/inline-keys.ts';
export { fieldPath, type Locate, UNKNOWN_FIELD, type ValidationError, validationErrorsOf } from './parsing/issues.ts';
export { withoutNulls } from './parsing/nulls.ts';
export { type ParsedResource, parseResource } from './parsing/parse.ts';
export { refusedPolicy } from './parsing/refused-policy.ts';
export { resembles } from './parsing/resembles.ts';
export { salvaged } from './parsing/salvage.ts';
export { isGuardedKind, isSecurityKind, substituteResource } from './parsing/substitute.ts';
export { PATCHED_MESSAGES } from './patched-messages.ts';
export { isPathTemplate } from './path-templates.ts';
export { GATEWAY_GROUP } from './policy-targets.ts';
export { GROUP_ANNOTATION } from './registration.ts';
export type { TargetRef } from './schema/common.ts';
export { duration, headerMatch, stringMatch } from './schema/common.ts';
export { DURATION_PATTERN } from './schema/duration.ts';
export { coreOf, type SecretField, secretFieldOf } from './schema/secret.ts';
export type {
  AuthorizationCondition,
  AuthorizationOperation,
  AuthorizationRule,
  AuthorizationSource,
} from './schema/security.ts';
export { SIDECAR_CONFIGURATION, sidecarConfigurationOf } from './sidecar-configuration.ts';
export { TRAFFIC_METRICS, type TrafficMetric } from './traffic-metrics.ts';
export { type UnreachedRoute, type UnreachedRoutes, unreachedRoutes } from './unreached-routes.ts';
export { adapterParams, templateParams } from './validate/policy-params.ts';
export { derivedMatchProblem, derivedRouteProblem } from './validate/routes/derived-route.ts';
export { HEALTH_CHECKED, HEALTHY_CONDITION, isProbed } from './workload-health.ts';
