/** What is exported, where to and how, from the variables of OpenTelemetry. */
import type { BuildInfo } from '../../core/build-info.ts';
import { type OtelSettings, usageError } from '../../settings/index.ts';

export interface OtlpOptions {
  /** Undefined: not exported. */
  readonly metrics: URL | undefined;
  readonly traces: URL | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly metricIntervalMs: number;
  readonly traceDelayMs: number;
  readonly maxQueuedSpans: number;
  /** Attributes of the resource. */
  readonly resource: Readonly<Record<string, string>>;
}

/**
 * Undefined when nothing is exported. Throws CtlError that names the variable with a wrong value.
 * @param instance the name of this replica
 */
export function otlpOptions(settings: OtelSettings, build: BuildInfo, instance: string): OtlpOptions | undefined {
  const metrics = endpointOf(
    'METRICS',
    'metrics',
    settings.otelMetricsExporter,
    settings.otlpMetricsEndpoint,
    settings,
  );
  const traces = endpointOf('TRACES', 'traces', settings.otelTracesExporter, settings.otlpTracesEndpoint, settings);
  if (settings.otelDisabled || (metrics === undefined && traces === undefined)) return undefined;
  if (settings.otlpProtocol !== 'http/json') {
    const got = JSON.stringify(settings.otlpProtocol);
    throw usageError(
      `OTEL_EXPORTER_OTLP_PROTOCOL: expected http/json, which receivers understand on their HTTP port, got ${got}`,
    );
  }
  return {
    metrics,
    traces,
    headers: headersOf(settings.otlpHeaders),
    timeoutMs: settings.otlpTimeoutMs,
    metricIntervalMs: settings.otelMetricIntervalMs,
    traceDelayMs: settings.otelTraceDelayMs,
    maxQueuedSpans: settings.otelMaxQueuedSpans,
    resource: {
      'service.instance.id': instance,
      'service.version': build.version,
      ...pairsOf('OTEL_RESOURCE_ATTRIBUTES', settings.otelResourceAttributes),
      'service.name': settings.otelServiceName,
    },
  };
}

function endpointOf(
  variable: 'METRICS' | 'TRACES',
  path: string,
  exporter: string,
  own: string,
  { otlpEndpoint }: OtelSettings,
): URL | undefined {
  if (exporter !== 'otlp' && exporter !== 'none') {
    throw usageError(`OTEL_${variable}_EXPORTER: expected otlp or none, got ${JSON.stringify(exporter)}`);
  }
  if (exporter === 'none' || (own === '' && otlpEndpoint === '')) return undefined;
  const name = own === '' ? 'OTEL_EXPORTER_OTLP_ENDPOINT' : `OTEL_EXPORTER_OTLP_${variable}_ENDPOINT`;
  const url = URL.parse(own === '' ? `${otlpEndpoint.replace(/\/+$/, '')}/v1/${path}` : own);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    throw usageError(`${name}: expected a URL that begins with http:// or https://, without a password`);
  }
  return url;
}

function headersOf(text: string): Readonly<Record<string, string>> {
  const headers = pairsOf('OTEL_EXPORTER_OTLP_HEADERS', text);
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[!#$%&'*+.^_`|~\w-]+$/.test(name) || /[^\t\x20-\x7e]/.test(value)) {
      throw usageError('OTEL_EXPORTER_OTLP_HEADERS: expected names and values of HTTP headers');
    }
  }
  return headers;
}

/** `name=value,…`, values in URL encoding. The text is not quoted in messages: it may be a credential. */
function pairsOf(variable: string, text: string): Record<string, string> {
  const wrong = () => usageError(`${variable}: expected name=value,… with values in URL encoding`);
  const pairs = text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '')
    .map((each): [string, string] => {
      const at = each.indexOf('=');
      if (at < 1) throw wrong();
      try {
        return [each.slice(0, at).trim(), decodeURIComponent(each.slice(at + 1).trim())];
      } catch {
        throw wrong();
      }
    });
  return Object.fromEntries(pairs);
}
