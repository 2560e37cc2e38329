/**
 * Environment variables of the export by OpenTelemetry. Names and meanings are those of its specification
 * (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/, …/protocol/exporter/); times are
 * milliseconds there.
 */
import type { EnvTable, EnvValues } from '../env-table.ts';

export const discoveryOtelEnv = {
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    setting: 'otlpEndpoint',
    type: 'string',
    default: '',
    meaning:
      'URL of an OpenTelemetry receiver, such as http://collector:4318. Metrics go to /v1/metrics below it and ' +
      'traces of pushes to /v1/traces. When unset nothing is exported.',
  },
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: {
    setting: 'otlpMetricsEndpoint',
    type: 'string',
    default: '',
    meaning: 'Complete URL for metrics, instead of one below OTEL_EXPORTER_OTLP_ENDPOINT.',
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    setting: 'otlpTracesEndpoint',
    type: 'string',
    default: '',
    meaning: 'Complete URL for traces, instead of one below OTEL_EXPORTER_OTLP_ENDPOINT.',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    setting: 'otlpHeaders',
    type: 'string',
    default: '',
    secret: true,
    meaning: 'Headers of each request: name=value,…, values in URL encoding. They are never shown.',
  },
  OTEL_EXPORTER_OTLP_PROTOCOL: {
    setting: 'otlpProtocol',
    type: 'string',
    default: 'http/json',
    meaning: 'Only http/json is supported, which the HTTP port of a receiver understands besides http/protobuf.',
  },
  OTEL_EXPORTER_OTLP_TIMEOUT: {
    setting: 'otlpTimeoutMs',
    type: 'integer',
    default: 10_000,
    min: 1,
    meaning: 'Time limit of a request, milliseconds.',
  },
  OTEL_METRICS_EXPORTER: {
    setting: 'otelMetricsExporter',
    type: 'string',
    default: 'otlp',
    meaning: 'none: metrics are not exported.',
  },
  OTEL_TRACES_EXPORTER: {
    setting: 'otelTracesExporter',
    type: 'string',
    default: 'otlp',
    meaning: 'none: traces of pushes are not exported.',
  },
  OTEL_METRIC_EXPORT_INTERVAL: {
    setting: 'otelMetricIntervalMs',
    type: 'integer',
    default: 60_000,
    min: 100,
    meaning: 'Time between two exports of metrics, milliseconds.',
  },
  OTEL_BSP_SCHEDULE_DELAY: {
    setting: 'otelTraceDelayMs',
    type: 'integer',
    default: 5000,
    min: 100,
    meaning: 'Time between two exports of traces, milliseconds.',
  },
  OTEL_BSP_MAX_QUEUE_SIZE: {
    setting: 'otelMaxQueuedSpans',
    type: 'integer',
    default: 2048,
    min: 1,
    meaning: 'Spans that wait for the receiver; more are dropped, the oldest first.',
  },
  OTEL_SERVICE_NAME: {
    setting: 'otelServiceName',
    type: 'string',
    default: 'ctl-discovery',
    meaning: 'The resource attribute service.name of what is exported.',
  },
  OTEL_RESOURCE_ATTRIBUTES: {
    setting: 'otelResourceAttributes',
    type: 'string',
    default: '',
    meaning: 'More attributes of the resource: name=value,…, values in URL encoding.',
  },
  OTEL_SDK_DISABLED: {
    setting: 'otelDisabled',
    type: 'boolean',
    default: false,
    meaning: 'Whether nothing is exported.',
  },
} as const satisfies EnvTable;

/** Settings of the export. */
export type OtelSettings = EnvValues<typeof discoveryOtelEnv>;
