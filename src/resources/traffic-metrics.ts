/**
 * Metrics of requests and of connections, by the names of the Telemetry API. They are not in the schema's file, because
 * workers that generate would load the library of schemas with it.
 */
export const TRAFFIC_METRICS = [
  'REQUEST_COUNT',
  'REQUEST_DURATION',
  'REQUEST_SIZE',
  'RESPONSE_SIZE',
  'TCP_OPENED_CONNECTIONS',
  'TCP_CLOSED_CONNECTIONS',
  'TCP_SENT_BYTES',
  'TCP_RECEIVED_BYTES',
  'GRPC_REQUEST_MESSAGES',
  'GRPC_RESPONSE_MESSAGES',
] as const;
export type TrafficMetric = (typeof TRAFFIC_METRICS)[number];
