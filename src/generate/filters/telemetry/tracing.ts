/**
 * Spans of requests: `tracing` of the HTTP connection manager. Without a provider, Envoy uses the tracer of its
 * bootstrap, which an agent writes from `tracing` of the proxy configuration.
 */
import type { OwnTracing } from '../../../core/tracing.ts';
import { envoy } from '../../../protobuf/index.ts';
import type { ExtensionProvider } from '../../../resources/index.ts';
import { toDuration } from '../../common/index.ts';
import type { ScopeReader } from '../../reads/index.ts';
import {
  DATADOG_TRACER,
  hasExtension,
  OPENTELEMETRY_TRACER,
  type ProxyCapabilities,
  SKYWALKING_TRACER,
  type TypedConfig,
  typedConfig,
  ZIPKIN_TRACER,
} from '../extensions.ts';
import { customTagMessages } from './custom-tags.ts';
import { type Collector, collectorOf, type Unavailable } from './providers.ts';

type Message = envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Tracing.Input;
type HttpService = envoy.config.core.v3.HttpService.Input;

const TRACERS = {
  zipkin: ZIPKIN_TRACER,
  opentelemetry: OPENTELEMETRY_TRACER,
  datadog: DATADOG_TRACER,
  skywalking: SKYWALKING_TRACER,
} as const;
type TracerKind = keyof typeof TRACERS;
const KINDS = Object.keys(TRACERS) as TracerKind[];

/** A tracing provider and its collector. */
export interface TracerPlan {
  readonly kind: TracerKind;
  readonly provider: ExtensionProvider;
  readonly collector: Collector;
}

/** The tracing settings of a listener; plain data that is compared by value. */
export interface TracingPlan {
  /** Absent: the tracer of Envoy's bootstrap. */
  readonly tracer?: TracerPlan;
  /** Percent of the requests without a decision about tracing. */
  readonly sampling: number;
  readonly maxPathTagLength?: number;
  readonly customTags?: OwnTracing['customTags'];
  /** Set if requests must not propagate the trace context. */
  readonly propagates?: false;
  /** Set if requests are sampled at random, whatever their `x-request-id`. */
  readonly requestIdDecides?: false;
  /** Set for gateways: their span has a child span for the request that they send. */
  readonly isGateway?: true;
}

/** The tracer of a provider for the proxies of a scope. */
export function tracerOf(
  view: ProxyCapabilities,
  scope: ScopeReader | undefined,
  provider: ExtensionProvider,
): TracerPlan | Unavailable {
  const kinds = KINDS.filter((kind) => provider[kind] !== undefined);
  const [kind] = kinds;
  const config = kind === undefined ? undefined : provider[kind];
  if (kind === undefined || config === undefined || kinds.length > 1) {
    return { problem: `extension provider ${provider.name}: tracing needs exactly one of ${KINDS.join(', ')}` };
  }
  if (!hasExtension(view, TRACERS[kind])) {
    return { problem: `extension provider ${provider.name}: the proxy's Envoy has no ${TRACERS[kind]}` };
  }
  const collector = collectorOf(scope, provider.name, config);
  return 'problem' in collector ? collector : { kind, provider, collector };
}

export function tracingMessage({
  tracer,
  sampling,
  maxPathTagLength,
  customTags,
  isGateway,
  propagates,
}: TracingPlan): Message {
  const tags = customTagMessages(customTags ?? {});
  const spawns = tracer !== undefined && (isGateway === true || tracer.kind === 'skywalking');
  const longest = maxTagLength(tracer) ?? maxPathTagLength;
  return {
    // 100 is Envoy's default.
    ...(sampling < 100 && { randomSampling: { value: sampling } }),
    ...(longest !== undefined && { maxPathTagLength: { value: longest } }),
    ...(tags.length > 0 && { customTags: tags }),
    ...(tracer !== undefined && { provider: providerMessage(tracer) }),
    ...(propagates === false && { noContextPropagation: true }),
    ...(spawns && { spawnUpstreamSpan: { value: true } }),
  };
}

function maxTagLength(tracer: TracerPlan | undefined): number | undefined {
  const { zipkin, opentelemetry, datadog } = tracer?.provider ?? {};
  const length = (zipkin ?? opentelemetry ?? datadog)?.maxTagLength ?? 0;
  return length === 0 ? undefined : length;
}

function providerMessage({ kind, provider, collector }: TracerPlan): TypedConfig {
  const { ZipkinConfig, DatadogConfig, OpenTelemetryConfig, SkyWalkingConfig } = envoy.config.trace.v3;
  const { host, cluster } = collector;
  switch (kind) {
    case 'zipkin':
      return typedConfig(ZIPKIN_TRACER, ZipkinConfig, zipkinConfig(provider.zipkin, collector));
    case 'opentelemetry':
      return typedConfig(OPENTELEMETRY_TRACER, OpenTelemetryConfig, openTelemetry(provider.opentelemetry, collector));
    case 'datadog':
      // The tracer reads the name of the service from Envoy's environment variable DD_SERVICE, which agents set.
      return typedConfig(DATADOG_TRACER, DatadogConfig, {
        collectorCluster: cluster,
        collectorHostname: host,
        serviceName: 'envoy',
      });
    case 'skywalking':
      return typedConfig(SKYWALKING_TRACER, SkyWalkingConfig, {
        grpcService: { envoyGrpc: { clusterName: cluster, authority: host } },
        ...(provider.skywalking?.accessToken !== undefined && {
          clientConfig: { backendToken: provider.skywalking.accessToken },
        }),
      });
  }
}

const { HTTP_JSON } = envoy.config.trace.v3.ZipkinConfig.CollectorEndpointVersion;
const { USE_B3_WITH_W3C_PROPAGATION } = envoy.config.trace.v3.ZipkinConfig.TraceContextOption;
const ZIPKIN_PATH = '/api/v2/spans';
/** Exports have a deadline, so that spans for an unresponsive collector do not accumulate. */
const EXPORT_TIMEOUT_MS = 5_000;

function zipkinConfig(
  config: ExtensionProvider['zipkin'],
  collector: Collector,
): envoy.config.trace.v3.ZipkinConfig.Input {
  const { path = ZIPKIN_PATH, timeout, headers, enable64bitTraceId, traceContextOption } = config ?? {};
  return {
    collectorEndpointVersion: HTTP_JSON,
    traceId_128bit: enable64bitTraceId !== true,
    // Client and server each have a span.
    sharedSpanContext: { value: false },
    ...(traceContextOption === 'USE_B3_WITH_W3C_PROPAGATION' && { traceContextOption: USE_B3_WITH_W3C_PROPAGATION }),
    ...(timeout === undefined && headers === undefined
      ? { collectorCluster: collector.cluster, collectorHostname: collector.host, collectorEndpoint: path }
      : { collectorService: httpService(collector, path, timeout, headers) }),
  };
}

const { EnvironmentResourceDetectorConfig } = envoy.extensions.tracers.opentelemetry.resource_detectors.v3;
/** Reads OTEL_RESOURCE_ATTRIBUTES of Envoy's environment: the name of the service differs between proxies of a view. */
const ENVIRONMENT_DETECTOR = typedConfig(
  'envoy.tracers.opentelemetry.resource_detectors.environment',
  EnvironmentResourceDetectorConfig,
  {},
);

function openTelemetry(
  config: ExtensionProvider['opentelemetry'],
  collector: Collector,
): envoy.config.trace.v3.OpenTelemetryConfig.Input {
  const { http, grpc } = config ?? {};
  const initialMetadata = grpc?.initialMetadata?.map(({ name: key, value }) => ({ key, value }));
  return {
    resourceDetectors: [ENVIRONMENT_DETECTOR],
    ...(http === undefined
      ? {
          grpcService: {
            envoyGrpc: { clusterName: collector.cluster, authority: collector.host },
            ...(grpc?.timeout !== undefined && { timeout: toDuration(grpc.timeout) }),
            ...(initialMetadata !== undefined && { initialMetadata }),
          },
        }
      : { httpService: httpService(collector, http.path ?? '', http.timeout, http.headers) }),
  };
}

function httpService(
  { host, cluster }: Collector,
  path: string,
  timeout = EXPORT_TIMEOUT_MS,
  headers: readonly { readonly name: string; readonly value: string }[] = [],
): HttpService {
  return {
    httpUri: { uri: `http://${host}/${path.replace(/^\//, '')}`, cluster, timeout: toDuration(timeout) },
    ...(headers.length > 0 && {
      requestHeadersToAdd: headers.map(({ name: key, value }) => ({ header: { key, value } })),
    }),
  };
}
