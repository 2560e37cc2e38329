/**
 * One schema per kind, from which types and validation are derived. Content of a mesh kind is its `spec`; of a core
 * kind the object without `apiVersion`, `kind` and `metadata`. `validate/` checks what types cannot express.
 */
import type { z } from 'zod';
import * as core from '../schema/core.ts';
import { destinationRule } from '../schema/destination-rule.ts';
import { envoyFilter } from '../schema/envoy-filter.ts';
import { gateway } from '../schema/gateway.ts';
import * as serviceApi from '../schema/gateway-api.ts';
import { ingress, ingressClass } from '../schema/ingress.ts';
import {
  attributeManifest,
  policyAdapter,
  policyHandler,
  policyInstance,
  policyRule,
  policyTemplate,
} from '../schema/policy.ts';
import { proxyConfigDocument } from '../schema/proxy-config.ts';
import { authorizationPolicy, jsonWebKeySet, peerAuthentication, requestAuthentication } from '../schema/security.ts';
import { serviceEntry, workloadEntry } from '../schema/service-entry.ts';
import { sidecar } from '../schema/sidecar.ts';
import { telemetry } from '../schema/telemetry.ts';
import { virtualService } from '../schema/virtual-service.ts';
import { workloadGroup } from '../schema/workload-group.ts';
import type { Kind } from './kinds.ts';

export const SCHEMAS = {
  AuthorizationPolicy: authorizationPolicy,
  DestinationRule: destinationRule,
  EnvoyFilter: envoyFilter,
  Gateway: gateway,
  PeerAuthentication: peerAuthentication,
  ProxyConfig: proxyConfigDocument,
  RequestAuthentication: requestAuthentication,
  ServiceEntry: serviceEntry,
  Sidecar: sidecar,
  Telemetry: telemetry,
  VirtualService: virtualService,
  WorkloadEntry: workloadEntry,
  WorkloadGroup: workloadGroup,
  adapter: policyAdapter,
  attributemanifest: attributeManifest,
  handler: policyHandler,
  instance: policyInstance,
  rule: policyRule,
  template: policyTemplate,
  ConfigMap: core.configMap,
  EndpointSlice: core.endpointSlice,
  Endpoints: core.endpoints,
  Namespace: core.namespace,
  Node: core.node,
  Pod: core.pod,
  Secret: core.secret,
  Service: core.service,
  ServiceAccount: core.serviceAccount,
  BackendTLSPolicy: serviceApi.backendTlsPolicy,
  GRPCRoute: serviceApi.grpcRoute,
  GatewayClass: serviceApi.gatewayClass,
  HTTPRoute: serviceApi.httpRoute,
  KubernetesGateway: serviceApi.kubernetesGateway,
  ReferenceGrant: serviceApi.referenceGrant,
  TCPRoute: serviceApi.tcpRoute,
  TLSRoute: serviceApi.tlsRoute,
  Ingress: ingress,
  IngressClass: ingressClass,
  JsonWebKeySet: jsonWebKeySet,
} as const satisfies Record<Kind, z.ZodType>;

/** The content of a parsed or derived resource of kind `K`. Durations are milliseconds. */
export type ContentOf<K extends Kind> = z.output<(typeof SCHEMAS)[K]>;

export type { HeaderMatch, Percent, Port, StringMatch } from '../schema/common.ts';
export type {
  ConfigMapContent,
  EndpointSliceContent,
  EndpointsContent,
  NamespaceContent,
  NodeContent,
  PodContent,
  SecretContent,
  ServiceAccountContent,
  ServiceContent,
  ServicePort,
} from '../schema/core.ts';
export type { SecretName } from '../schema/derived.ts';
export type {
  ConnectionPool,
  ConsistentHash,
  DestinationRuleSpec,
  LoadBalancerSettings,
  LocalityLbSetting,
  OutlierDetection,
  PortTrafficPolicy,
  ProxyProtocol,
  RetryBudget,
  Subset,
  TcpKeepalive,
  TrafficPolicy,
  Tunnel,
} from '../schema/destination-rule.ts';
export type { EnvoyConfigMatch, EnvoyConfigPatch, EnvoyFilterSpec } from '../schema/envoy-filter.ts';
export type { GatewayServer, GatewaySpec } from '../schema/gateway.ts';
export type {
  BackendReference,
  BackendTlsPolicySpec,
  ConnectionRule,
  Cors,
  FilteredBackend,
  FrontendTls,
  GatewayListener,
  GrpcRouteMatch,
  GrpcRouteRule,
  HeaderFilter,
  HttpRouteMatch,
  HttpRouteRule,
  KubernetesGatewaySpec,
  LabelSelector,
  NamedMatch,
  ObjectReference,
  ParentReference,
  PathModifier,
  RequestMirror,
  RequestRedirect,
  RouteFilter,
  RouteGroupKind,
  UrlRewrite,
  WeightedBackend,
} from '../schema/gateway-api.ts';
export type { IngressBackend, IngressPath, IngressSpec } from '../schema/ingress.ts';
export type {
  AttributeManifestSpec,
  PolicyAdapterSpec,
  PolicyHandlerSpec,
  PolicyHeaderOperation,
  PolicyInstanceSpec,
  PolicyRuleSpec,
  PolicyTemplateSpec,
} from '../schema/policy.ts';
export type { AdapterParams, TemplateParams } from '../schema/policy-params.ts';
export type {
  AuthorizationCondition,
  AuthorizationOperation,
  AuthorizationPolicySpec,
  AuthorizationRule,
  AuthorizationSource,
  JwtRule,
  PeerAuthenticationSpec,
  RequestAuthenticationSpec,
} from '../schema/security.ts';
export type { ServiceEntrySpec, WorkloadEntrySpec } from '../schema/service-entry.ts';
export type { SidecarEgress, SidecarIngress, SidecarSpec } from '../schema/sidecar.ts';
export type { MetricsEntry, TelemetrySpec } from '../schema/telemetry.ts';
export type { ClientTlsSettings, ServerTlsSettings } from '../schema/tls-settings.ts';
export type {
  CorsPolicy,
  Destination,
  FaultAbort,
  FaultDelay,
  HeaderOperations,
  HttpDirectResponse,
  HttpHeaders,
  HttpMatch,
  HttpRedirect,
  HttpRetries,
  HttpRewrite,
  HttpRoute,
  HttpRouteDestination,
  L4Match,
  RouteDestination,
  TcpRoute,
  TlsMatch,
  TlsRoute,
  VirtualServiceSpec,
} from '../schema/virtual-service.ts';
export type { ReadinessProbe, WorkloadGroupSpec } from '../schema/workload-group.ts';
