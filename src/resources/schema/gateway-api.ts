/**
 * The translated parts of the kinds of the Gateway API (https://gateway-api.sigs.k8s.io/reference/spec/, version 1.6).
 * Unknown fields are dropped, and enumerations are open: the API adds fields and values, and a value that is not
 * supported is reported in the object's status instead of refusing the document.
 */
import { z } from 'zod';
import { duration, int32, portNumber, stringMap, strings } from './common.ts';
import { secret } from './secret.ts';

/** A reference to any object; defaults depend on where it is used. */
const objectReference = z.object({
  group: z.string().optional(),
  kind: z.string().optional(),
  name: z.string(),
  namespace: z.string().optional(),
});
export type ObjectReference = z.output<typeof objectReference>;

const labelSelector = z.object({
  matchLabels: stringMap.optional(),
  matchExpressions: z.array(z.object({ key: z.string(), operator: z.string(), values: strings.optional() })).optional(),
});
export type LabelSelector = z.output<typeof labelSelector>;

export const gatewayClass = z.object({
  controllerName: z.string(),
  parametersRef: objectReference.optional(),
});

const allowedNamespaces = z.object({ from: z.string().optional(), selector: labelSelector.optional() });

const listenerTls = z.object({
  mode: z.string().optional(),
  certificateRefs: z.array(objectReference).optional(),
  options: stringMap.optional(),
});

const routeGroupKind = z.object({ group: z.string().optional(), kind: z.string() });
export type RouteGroupKind = z.output<typeof routeGroupKind>;

const listener = z.object({
  name: z.string(),
  hostname: z.string().optional(),
  port: portNumber,
  protocol: z.string(),
  tls: listenerTls.optional(),
  allowedRoutes: z
    .object({ namespaces: allowedNamespaces.optional(), kinds: z.array(routeGroupKind).optional() })
    .optional(),
});
export type GatewayListener = z.output<typeof listener>;

const frontendTls = z.object({
  validation: z.object({ caCertificateRefs: z.array(objectReference), mode: z.string().optional() }).optional(),
});
export type FrontendTls = z.output<typeof frontendTls>;

export const kubernetesGateway = z.object({
  gatewayClassName: z.string(),
  listeners: z.array(listener),
  addresses: z.array(z.object({ type: z.string().optional(), value: z.string().optional() })).optional(),
  infrastructure: z
    .object({
      labels: stringMap.optional(),
      annotations: stringMap.optional(),
      parametersRef: objectReference.optional(),
    })
    .optional(),
  tls: z
    .object({
      backend: z.object({ clientCertificateRef: objectReference.optional() }).optional(),
      frontend: z
        .object({
          default: frontendTls.optional(),
          perPort: z.array(z.object({ port: portNumber, tls: frontendTls })).optional(),
        })
        .optional(),
    })
    .optional(),
});
export type KubernetesGatewaySpec = z.output<typeof kubernetesGateway>;

const parentReference = z.object({
  ...objectReference.shape,
  sectionName: z.string().optional(),
  port: portNumber.optional(),
});
export type ParentReference = z.output<typeof parentReference>;

const backendReference = z.object({ ...objectReference.shape, port: portNumber.optional() });
export type BackendReference = z.output<typeof backendReference>;

const weightedBackend = z.object({ ...backendReference.shape, weight: int32.optional() });
export type WeightedBackend = z.output<typeof weightedBackend>;

const header = secret('value', z.object({ name: z.string(), value: z.string() }));
const headerFilter = z.object({
  set: z.array(header).optional(),
  add: z.array(header).optional(),
  remove: strings.optional(),
});
export type HeaderFilter = z.output<typeof headerFilter>;

const pathModifier = z.object({
  type: z.string(),
  replaceFullPath: z.string().optional(),
  replacePrefixMatch: z.string().optional(),
});
export type PathModifier = z.output<typeof pathModifier>;

const requestMirror = z.object({
  backendRef: backendReference,
  percent: int32.optional(),
  fraction: z.object({ numerator: int32, denominator: int32.optional() }).optional(),
});
export type RequestMirror = z.output<typeof requestMirror>;

const requestRedirect = z.object({
  scheme: z.string().optional(),
  hostname: z.string().optional(),
  path: pathModifier.optional(),
  port: portNumber.optional(),
  statusCode: int32.optional(),
});
export type RequestRedirect = z.output<typeof requestRedirect>;

const urlRewrite = z.object({ hostname: z.string().optional(), path: pathModifier.optional() });
export type UrlRewrite = z.output<typeof urlRewrite>;

const cors = z.object({
  allowOrigins: strings.optional(),
  allowCredentials: z.boolean().optional(),
  allowMethods: strings.optional(),
  allowHeaders: strings.optional(),
  exposeHeaders: strings.optional(),
  /** Seconds. */
  maxAge: int32.optional(),
});
export type Cors = z.output<typeof cors>;

/** Filters of HTTPRoute; GRPCRoute has a subset of them. */
const routeFilter = z.object({
  type: z.string(),
  requestHeaderModifier: headerFilter.optional(),
  responseHeaderModifier: headerFilter.optional(),
  requestMirror: requestMirror.optional(),
  requestRedirect: requestRedirect.optional(),
  urlRewrite: urlRewrite.optional(),
  cors: cors.optional(),
  extensionRef: objectReference.optional(),
});
export type RouteFilter = z.output<typeof routeFilter>;

const filteredBackend = z.object({ ...weightedBackend.shape, filters: z.array(routeFilter).optional() });
export type FilteredBackend = z.output<typeof filteredBackend>;

/** Matches of headers and query parameters. */
const namedMatch = secret('value', z.object({ type: z.string().optional(), name: z.string(), value: z.string() }));
export type NamedMatch = z.output<typeof namedMatch>;

const httpRouteMatch = z.object({
  path: z.object({ type: z.string().optional(), value: z.string().optional() }).optional(),
  headers: z.array(namedMatch).optional(),
  queryParams: z.array(namedMatch).optional(),
  method: z.string().optional(),
});
export type HttpRouteMatch = z.output<typeof httpRouteMatch>;

const httpRouteRule = z.object({
  name: z.string().optional(),
  matches: z.array(httpRouteMatch).optional(),
  filters: z.array(routeFilter).optional(),
  backendRefs: z.array(filteredBackend).optional(),
  timeouts: z.object({ request: duration.optional(), backendRequest: duration.optional() }).optional(),
  retry: z
    .object({ codes: z.array(int32).optional(), attempts: int32.optional(), backoff: duration.optional() })
    .optional(),
});
export type HttpRouteRule = z.output<typeof httpRouteRule>;

const parents = { parentRefs: z.array(parentReference).optional() };

export const httpRoute = z.object({
  ...parents,
  hostnames: strings.optional(),
  rules: z.array(httpRouteRule).optional(),
});

const grpcRouteMatch = z.object({
  method: z
    .object({ type: z.string().optional(), service: z.string().optional(), method: z.string().optional() })
    .optional(),
  headers: z.array(namedMatch).optional(),
});
export type GrpcRouteMatch = z.output<typeof grpcRouteMatch>;

const grpcRouteRule = z.object({
  name: z.string().optional(),
  matches: z.array(grpcRouteMatch).optional(),
  filters: z.array(routeFilter).optional(),
  backendRefs: z.array(filteredBackend).optional(),
});
export type GrpcRouteRule = z.output<typeof grpcRouteRule>;

export const grpcRoute = z.object({
  ...parents,
  hostnames: strings.optional(),
  rules: z.array(grpcRouteRule).optional(),
});

const connectionRule = z.object({
  name: z.string().optional(),
  backendRefs: z.array(weightedBackend).optional(),
});
export type ConnectionRule = z.output<typeof connectionRule>;

export const tlsRoute = z.object({
  ...parents,
  hostnames: strings.optional(),
  rules: z.array(connectionRule).optional(),
});

export const tcpRoute = z.object({ ...parents, rules: z.array(connectionRule).optional() });

export const referenceGrant = z.object({
  from: z.array(z.object({ group: z.string(), kind: z.string(), namespace: z.string() })),
  to: z.array(z.object({ group: z.string(), kind: z.string(), name: z.string().optional() })),
});

export const backendTlsPolicy = z.object({
  targetRefs: z.array(z.object({ ...objectReference.shape, sectionName: z.string().optional() })).optional(),
  validation: z.object({
    caCertificateRefs: z.array(objectReference).optional(),
    wellKnownCACertificates: z.string().optional(),
    hostname: z.string(),
    subjectAltNames: z
      .array(z.object({ type: z.string(), hostname: z.string().optional(), uri: z.string().optional() }))
      .optional(),
  }),
});
export type BackendTlsPolicySpec = z.output<typeof backendTlsPolicy>;
