/** `extensionProviders` of the mesh configuration: services that policies call, and destinations of telemetry. */
import { z } from 'zod';
import { duration, portNumber, stringMap, strings, uint32 } from './common.ts';

/** A service of the mesh: `host` or `namespace/host`. */
const service = { service: z.string(), port: portNumber };

const authorizer = {
  ...service,
  timeout: duration.optional(),
  failOpen: z.boolean().default(false),
  /** HTTP status, as a string, for requests that are denied because the authorizer is unavailable. */
  statusOnError: z.string().optional(),
  clearRouteCache: z.boolean().default(false),
  includeRequestBodyInCheck: z
    .strictObject({
      maxRequestBytes: uint32,
      allowPartialMessage: z.boolean().default(false),
      packAsBytes: z.boolean().default(false),
    })
    .optional(),
};

/** A header of the requests that carry spans. */
const header = z.strictObject({ name: z.string().min(1), value: z.string() });

const httpExport = z.strictObject({
  path: z.string().optional(),
  timeout: duration.optional(),
  headers: z.array(header).optional(),
});

const zipkinProvider = z.strictObject({
  ...service,
  maxTagLength: uint32.optional(),
  enable64bitTraceId: z.boolean().optional(),
  path: z.string().startsWith('/').optional(),
  timeout: duration.optional(),
  headers: z.array(header).optional(),
  traceContextOption: z.enum(['USE_B3', 'USE_B3_WITH_W3C_PROPAGATION']).optional(),
});

const openTelemetryProvider = z.strictObject({
  ...service,
  maxTagLength: uint32.optional(),
  http: httpExport.optional(),
  grpc: z.strictObject({ timeout: duration.optional(), initialMetadata: z.array(header).optional() }).optional(),
  resourceDetectors: z.strictObject({ environment: z.strictObject({}).optional() }).optional(),
});

const textOrLabels = z.strictObject({
  text: z.string().optional(),
  labels: z.record(z.string(), z.json()).optional(),
});

/** A provider of an unsupported kind has only a name. */
export const extensionProvider = z.strictObject({
  name: z.string(),
  envoyExtAuthzGrpc: z.strictObject(authorizer).optional(),
  envoyExtAuthzHttp: z
    .strictObject({
      ...authorizer,
      pathPrefix: z.string().default(''),
      /** The older name of `includeRequestHeadersInCheck`. */
      includeHeadersInCheck: strings.default([]),
      includeRequestHeadersInCheck: strings.default([]),
      includeAdditionalHeadersInCheck: stringMap.default({}),
      headersToUpstreamOnAllow: strings.default([]),
      headersToDownstreamOnDeny: strings.default([]),
      headersToDownstreamOnAllow: strings.default([]),
    })
    .optional(),
  zipkin: zipkinProvider.optional(),
  opentelemetry: openTelemetryProvider.optional(),
  datadog: z.strictObject({ ...service, maxTagLength: uint32.optional() }).optional(),
  skywalking: z.strictObject({ ...service, accessToken: z.string().optional() }).optional(),
  /** Metrics of requests and connections, in Envoy's own statistics. */
  prometheus: z.strictObject({}).optional(),
  envoyFileAccessLog: z
    .strictObject({
      path: z.string().default('/dev/stdout'),
      logFormat: textOrLabels.optional(),
      omitEmptyValues: z.boolean().optional(),
    })
    .optional(),
  envoyHttpAls: z
    .strictObject({
      ...service,
      logName: z.string().optional(),
      filterStateObjectsToLog: strings.optional(),
      additionalRequestHeadersToLog: strings.optional(),
      additionalResponseHeadersToLog: strings.optional(),
      additionalResponseTrailersToLog: strings.optional(),
    })
    .optional(),
  envoyTcpAls: z
    .strictObject({ ...service, logName: z.string().optional(), filterStateObjectsToLog: strings.optional() })
    .optional(),
  envoyOtelAls: z
    .strictObject({ ...service, logName: z.string().optional(), logFormat: textOrLabels.optional() })
    .optional(),
});

export type ExtensionProvider = z.output<typeof extensionProvider>;
