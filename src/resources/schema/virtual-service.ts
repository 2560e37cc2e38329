/** VirtualService: where requests and connections to a host go. */
import { z } from 'zod';
import {
  duration,
  headerMatch,
  int32,
  percent,
  portNumber,
  portSelector,
  selectorLabelMap,
  stringMatch,
  strings,
  uint32,
} from './common.ts';
import { type DerivedDestination, type DerivedHttpMatch, type DerivedRedirect, derivable } from './derived.ts';
import { secret } from './secret.ts';

export const destination = z.strictObject({
  host: z.string(),
  subset: z.string().optional(),
  port: portSelector.optional(),
});

const headerValues = secret('byName', z.record(z.string(), z.string()));

const headerOperations = z.strictObject({
  set: headerValues.optional(),
  add: headerValues.optional(),
  remove: strings.optional(),
});

const headers = z.strictObject({ request: headerOperations.optional(), response: headerOperations.optional() });

const httpRouteDestination = derivable<DerivedDestination>()(
  z.strictObject({
    destination,
    weight: int32.optional(),
    headers: headers.optional(),
  }),
);

const routeDestination = derivable<DerivedDestination>()(z.strictObject({ destination, weight: int32.optional() }));

/** By the name of a header or query parameter. */
const namedMatches = secret('byName', z.record(z.string(), headerMatch));

const httpMatch = derivable<DerivedHttpMatch>()(
  z.strictObject({
    name: z.string().optional(),
    uri: stringMatch.optional(),
    scheme: stringMatch.optional(),
    method: stringMatch.optional(),
    authority: stringMatch.optional(),
    headers: namedMatches.optional(),
    withoutHeaders: namedMatches.optional(),
    queryParams: namedMatches.optional(),
    port: portNumber.optional(),
    sourceLabels: selectorLabelMap.optional(),
    sourceNamespace: z.string().optional(),
    gateways: strings.optional(),
    ignoreUriCase: z.boolean().optional(),
    statPrefix: z.string().optional(),
  }),
);

const l4Match = z.strictObject({
  destinationSubnets: strings.optional(),
  port: portNumber.optional(),
  sourceSubnet: z.string().optional(),
  sourceLabels: selectorLabelMap.optional(),
  sourceNamespace: z.string().optional(),
  gateways: strings.optional(),
});

const tlsMatch = z.strictObject({ sniHosts: strings.default([]), ...l4Match.shape });

/** The deprecated whole `percent` becomes `percentage`, unless that is given. */
function withPercentage<T extends { percent?: number | undefined; percentage?: { value: number } | undefined }>(
  fault: T,
) {
  const { percent: whole, ...rest } = fault;
  const percentage = fault.percentage ?? (whole === undefined ? undefined : { value: whole });
  return { ...rest, ...(percentage === undefined ? {} : { percentage }) };
}

const delay = z
  .strictObject({
    percent: int32.optional(),
    percentage: percent.optional(),
    fixedDelay: duration.optional(),
    exponentialDelay: duration.optional(),
  })
  .transform(withPercentage);

const abort = z
  .strictObject({
    percent: int32.optional(),
    percentage: percent.optional(),
    httpStatus: int32.optional(),
    grpcStatus: z.string().optional(),
    http2Error: z.string().optional(),
  })
  .transform(withPercentage);

const corsPolicy = z
  .strictObject({
    allowOrigin: strings.optional(),
    allowOrigins: z.array(stringMatch).optional(),
    allowMethods: strings.optional(),
    allowHeaders: strings.optional(),
    exposeHeaders: strings.optional(),
    maxAge: duration.optional(),
    allowCredentials: z.boolean().optional(),
    unmatchedPreflights: z.enum(['UNSPECIFIED', 'FORWARD', 'IGNORE']).optional(),
  })
  // The deprecated list of literal origins (`*` for any) becomes matches, unless `allowOrigins` is given.
  .transform(({ allowOrigin, ...policy }) => {
    if (allowOrigin === undefined || policy.allowOrigins !== undefined) return policy;
    const allowOrigins = allowOrigin.map((origin) => (origin === '*' ? { regex: '.*' } : { exact: origin }));
    return { ...policy, allowOrigins };
  });

const retries = z.strictObject({
  attempts: int32.optional(),
  perTryTimeout: duration.optional(),
  retryOn: z.string().optional(),
  retryRemoteLocalities: z.boolean().optional(),
  retryIgnorePreviousHosts: z.boolean().optional(),
  backoff: duration.optional(),
});

const redirect = derivable<DerivedRedirect>()(
  z.strictObject({
    uri: z.string().optional(),
    authority: z.string().optional(),
    port: portNumber.optional(),
    derivePort: z.enum(['FROM_PROTOCOL_DEFAULT', 'FROM_REQUEST_PORT']).optional(),
    scheme: z.string().optional(),
    redirectCode: uint32.optional(),
  }),
);

const rewrite = z.strictObject({
  uri: z.string().optional(),
  authority: z.string().optional(),
  uriRegexRewrite: z.strictObject({ match: z.string(), rewrite: z.string() }).optional(),
});

const directResponse = z.strictObject({
  status: uint32,
  body: z.strictObject({ string: z.string().optional(), /** Base64. */ bytes: z.string().optional() }).optional(),
});

const httpRoute = z
  .strictObject({
    name: z.string().optional(),
    match: z.array(httpMatch).optional(),
    route: z.array(httpRouteDestination).optional(),
    redirect: redirect.optional(),
    directResponse: directResponse.optional(),
    delegate: z.strictObject({ name: z.string().optional(), namespace: z.string().optional() }).optional(),
    rewrite: rewrite.optional(),
    timeout: duration.optional(),
    retries: retries.optional(),
    fault: z.strictObject({ delay: delay.optional(), abort: abort.optional() }).optional(),
    mirror: destination.optional(),
    mirrors: z.array(z.strictObject({ destination, percentage: percent.optional() })).optional(),
    mirrorPercent: uint32.optional(),
    mirrorPercentage: percent.optional(),
    corsPolicy: corsPolicy.optional(),
    headers: headers.optional(),
  })
  // The deprecated whole `mirrorPercent` becomes `mirrorPercentage`, unless that is given.
  .transform(({ mirrorPercent, ...route }) => {
    if (mirrorPercent === undefined || route.mirrorPercentage !== undefined) return route;
    return { ...route, mirrorPercentage: { value: mirrorPercent } };
  });

const tcpRoute = z.strictObject({
  match: z.array(l4Match).optional(),
  route: z.array(routeDestination).optional(),
});

const tlsRoute = z.strictObject({
  match: z.array(tlsMatch).optional(),
  route: z.array(routeDestination).optional(),
});

export const virtualService = z.strictObject({
  hosts: strings.optional(),
  gateways: strings.optional(),
  http: z.array(httpRoute).optional(),
  tls: z.array(tlsRoute).optional(),
  tcp: z.array(tcpRoute).optional(),
  exportTo: strings.optional(),
});

export type VirtualServiceSpec = z.output<typeof virtualService>;
export type HttpRoute = z.output<typeof httpRoute>;
export type HttpMatch = z.output<typeof httpMatch>;
export type HttpRouteDestination = z.output<typeof httpRouteDestination>;
export type HttpRedirect = z.output<typeof redirect>;
export type HttpRewrite = z.output<typeof rewrite>;
export type HttpDirectResponse = z.output<typeof directResponse>;
export type HttpRetries = z.output<typeof retries>;
export type HttpHeaders = z.output<typeof headers>;
export type HeaderOperations = z.output<typeof headerOperations>;
export type CorsPolicy = z.output<typeof corsPolicy>;
export type FaultDelay = z.output<typeof delay>;
export type FaultAbort = z.output<typeof abort>;
export type TcpRoute = z.output<typeof tcpRoute>;
export type TlsRoute = z.output<typeof tlsRoute>;
export type L4Match = z.output<typeof l4Match>;
export type TlsMatch = z.output<typeof tlsMatch>;
export type RouteDestination = z.output<typeof routeDestination>;
export type Destination = z.output<typeof destination>;
