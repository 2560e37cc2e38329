/**
 * Metrics of requests and connections by the filter of Istio's proxies, which sets all labels itself. Its message is
 * not part of Envoy's API: `stats.PluginConfig` of istio/proxy.
 */
import { type google, xds } from '../../../../protobuf/index.ts';
import type { TrafficMetric } from '../../../../resources/index.ts';
import { ISTIO_STATS_FILTER, type TypedConfig, typedConfig } from '../../extensions.ts';
import { isStandard } from './asked.ts';
import type { MetricsPlan } from './plan.ts';

type Value = google.protobuf.Value.Input;

/** The names of the metrics in the filter. */
const NAMES: Readonly<Record<TrafficMetric, string>> = {
  REQUEST_COUNT: 'requests_total',
  REQUEST_DURATION: 'request_duration_milliseconds',
  REQUEST_SIZE: 'request_bytes',
  RESPONSE_SIZE: 'response_bytes',
  TCP_OPENED_CONNECTIONS: 'tcp_connections_opened_total',
  TCP_CLOSED_CONNECTIONS: 'tcp_connections_closed_total',
  TCP_SENT_BYTES: 'tcp_sent_bytes_total',
  TCP_RECEIVED_BYTES: 'tcp_received_bytes_total',
  GRPC_REQUEST_MESSAGES: 'request_messages_total',
  GRPC_RESPONSE_MESSAGES: 'response_messages_total',
};

/** A label never has a value from the `Host` header, which callers choose. */
export function statsFilter({ changes, reportingInterval }: MetricsPlan): TypedConfig {
  const metrics = Object.entries(changes).map(([metric, { disabled = false, tags = [] } = {}]) => {
    const set = tags.flatMap(([name, expression]) =>
      expression === null ? [] : [[name, string(expression)] as const],
    );
    const removed = tags.filter(([, expression]) => expression === null).map(([name]) => string(name));
    return struct({
      name: string(isStandard(metric) ? NAMES[metric] : metric),
      ...(disabled && { drop: { boolValue: true } }),
      ...(set.length > 0 && { dimensions: struct(Object.fromEntries(set)) }),
      ...(removed.length > 0 && { tags_to_remove: { listValue: { values: removed } } }),
    });
  });
  const fields = {
    disable_host_header_fallback: { boolValue: true },
    ...(reportingInterval !== undefined && { tcp_reporting_duration: string(`${reportingInterval / 1000}s`) }),
    ...(metrics.length > 0 && { metrics: { listValue: { values: metrics } } }),
  };
  const typeUrl = 'type.googleapis.com/stats.PluginConfig';
  return typedConfig(ISTIO_STATS_FILTER, xds.type.v3.TypedStruct, { typeUrl, value: { fields } });
}

function string(stringValue: string): Value {
  return { stringValue };
}

function struct(fields: Readonly<Record<string, Value>>): Value {
  return { structValue: { fields } };
}
