/** Which metrics Envoy's own access logger has, and what it counts for each. */
import { envoy } from '../../../../protobuf/index.ts';
import type { TrafficMetric } from '../../../../resources/index.ts';
import { cel } from './labels.ts';

const { Milliseconds, Bytes } = envoy.extensions.access_loggers.stats.v3.Config.Histogram.Unit;

export interface Logged {
  readonly of: 'requests' | 'connections';
  /** The name in Prometheus, after `envoy_`: see docs/telemetry.md. */
  readonly name: string;
  /** Command operators of the value; absent: each request or connection counts one. */
  readonly value?: string;
  /** Absent: a counter. */
  readonly unit?: typeof Milliseconds | typeof Bytes;
}

const BY_METRIC: Readonly<Partial<Record<TrafficMetric, Logged>>> = {
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

export const LOGGED = Object.entries(BY_METRIC) as readonly (readonly [TrafficMetric, Logged])[];
