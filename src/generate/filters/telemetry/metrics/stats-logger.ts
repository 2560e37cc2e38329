/**
 * Metrics by Envoy's access logger for statistics. It counts a request or a connection when it ends, so that
 * connections have no counter of those opened, and gRPC none of messages.
 */
import { envoy } from '../../../../protobuf/index.ts';
import type { TrafficMetric } from '../../../../resources/index.ts';
import { STATS_ACCESS_LOG, type TypedConfig, typedConfig } from '../../extensions.ts';
import { cel, labelsOf } from './labels.ts';
import type { MetricsPlan } from './plan.ts';

const { Config } = envoy.extensions.access_loggers.stats.v3;
type Config = envoy.extensions.access_loggers.stats.v3.Config.Input;
type Stat = envoy.extensions.access_loggers.stats.v3.Config.Stat.Input;
const { Milliseconds, Bytes } = Config.Histogram.Unit;

/**
 * Of one logger, which is one for each filter chain: more series are not counted. A gateway to a thousand services with
 * ten different answers each has so many.
 */
const MAX_COUNTERS = 10_000;
const MAX_HISTOGRAMS = 10_000;

interface Measured {
  readonly of: 'requests' | 'connections';
  /** The name in Prometheus, after `envoy_`: see docs/telemetry.md. */
  readonly name: string;
  /** Command operators of the value; absent: each request or connection counts one. */
  readonly value?: string;
  /** Absent: a counter. */
  readonly unit?: typeof Milliseconds | typeof Bytes;
}

const MEASURED: Readonly<Partial<Record<TrafficMetric, Measured>>> = {
  REQUEST_COUNT: { of: 'requests', name: 'istio_requests_total' },
  REQUEST_DURATION: {
    of: 'requests',
    name: 'istio_request_duration_milliseconds',
    value: '%DURATION%',
    unit: Milliseconds,
  },
  REQUEST_SIZE: { of: 'requests', name: 'istio_request_bytes', value: cel('request.total_size'), unit: Bytes },
  RESPONSE_SIZE: { of: 'requests', name: 'istio_response_bytes', value: cel('response.total_size'), unit: Bytes },
  TCP_CLOSED_CONNECTIONS: { of: 'connections', name: 'istio_tcp_connections_closed_total' },
  TCP_SENT_BYTES: { of: 'connections', name: 'istio_tcp_sent_bytes_total', value: '%BYTES_SENT%' },
  TCP_RECEIVED_BYTES: { of: 'connections', name: 'istio_tcp_received_bytes_total', value: '%BYTES_RECEIVED%' },
};

/** The loggers for requests or for connections: one, or none where all of its metrics are disabled. */
export function statsLoggers({ direction, changes }: MetricsPlan, of: Measured['of']): TypedConfig[] {
  const counters: NonNullable<Config['counters']>[number][] = [];
  const histograms: NonNullable<Config['histograms']>[number][] = [];
  const labels = labelsOf(direction, of);
  for (const [metric, measured] of Object.entries(MEASURED) as [TrafficMetric, Measured][]) {
    const { disabled, tags = [] } = changes[metric] ?? {};
    if (measured.of !== of || disabled === true) continue;
    const { name, value, unit } = measured;
    const stat: Stat = { name, tags: tagsOf(labels, tags) };
    if (unit !== undefined && value !== undefined) histograms.push({ stat, unit, valueFormat: value });
    else counters.push({ stat, ...(value === undefined ? { valueFixed: { value: 1 } } : { valueFormat: value }) });
  }
  if (counters.length + histograms.length === 0) return [];
  // Envoys up to 1.40 crash at their end with a scope that loggers share (`sharing_name`).
  const statsScope = { maxCounters: { value: MAX_COUNTERS }, maxHistograms: { value: MAX_HISTOGRAMS } };
  return [typedConfig(STATS_ACCESS_LOG, Config, { statsScope, counters, histograms })];
}

function tagsOf(
  labels: Readonly<Record<string, string>>,
  changed: readonly (readonly [string, string | null])[],
): Stat['tags'] {
  const formats = new Map(Object.entries(labels));
  for (const [name, expression] of changed) {
    if (expression === null) formats.delete(name);
    else formats.set(name, cel(expression));
  }
  return [...formats].map(([name, valueFormat]) => ({ name, valueFormat }));
}
