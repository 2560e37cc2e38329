/** Access logs of the mesh configuration: one file for all listeners, with lines of text or of JSON. */
import { isObject } from '../../../core/objects.ts';
import { envoy, type google } from '../../../protobuf/index.ts';
import type { MeshConfig } from '../../../resources/index.ts';
import {
  FILE_ACCESS_LOG,
  hasExtension,
  type ProxyCapabilities,
  STDERR_ACCESS_LOG,
  STDOUT_ACCESS_LOG,
  type TypedConfig,
  typedConfig,
} from '../extensions.ts';

type LogFormat = envoy.config.core.v3.SubstitutionFormatString.Input;

/**
 * Default line and default JSON fields: the format of Istio's sidecars, which log pipelines parse. Operators: Envoy
 * docs, "Access logging", command operators.
 */
const DEFAULT_FIELDS = {
  start_time: '%START_TIME%',
  method: '%REQ(:METHOD)%',
  path: '%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%',
  protocol: '%PROTOCOL%',
  response_code: '%RESPONSE_CODE%',
  response_flags: '%RESPONSE_FLAGS%',
  response_code_details: '%RESPONSE_CODE_DETAILS%',
  connection_termination_details: '%CONNECTION_TERMINATION_DETAILS%',
  upstream_transport_failure_reason: '%UPSTREAM_TRANSPORT_FAILURE_REASON%',
  bytes_received: '%BYTES_RECEIVED%',
  bytes_sent: '%BYTES_SENT%',
  duration: '%DURATION%',
  upstream_service_time: '%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%',
  x_forwarded_for: '%REQ(X-FORWARDED-FOR)%',
  user_agent: '%REQ(USER-AGENT)%',
  request_id: '%REQ(X-REQUEST-ID)%',
  authority: '%REQ(:AUTHORITY)%',
  upstream_host: '%UPSTREAM_HOST%',
  upstream_cluster: '%UPSTREAM_CLUSTER%',
  upstream_local_address: '%UPSTREAM_LOCAL_ADDRESS%',
  downstream_local_address: '%DOWNSTREAM_LOCAL_ADDRESS%',
  downstream_remote_address: '%DOWNSTREAM_REMOTE_ADDRESS%',
  requested_server_name: '%REQUESTED_SERVER_NAME%',
  route_name: '%ROUTE_NAME%',
} as const;

const F = DEFAULT_FIELDS;
const DEFAULT_TEXT = [
  `[${F.start_time}] "${F.method} ${F.path} ${F.protocol}"`,
  `${F.response_code} ${F.response_flags} ${F.response_code_details} ${F.connection_termination_details}`,
  `"${F.upstream_transport_failure_reason}" ${F.bytes_received} ${F.bytes_sent}`,
  `${F.duration} ${F.upstream_service_time}`,
  `"${F.x_forwarded_for}" "${F.user_agent}" "${F.request_id}" "${F.authority}" "${F.upstream_host}"`,
  `${F.upstream_cluster} ${F.upstream_local_address} ${F.downstream_local_address} ${F.downstream_remote_address}`,
  `${F.requested_server_name} ${F.route_name}\n`,
].join(' ');

export type LogConfig = Pick<MeshConfig, 'accessLogFile' | 'accessLogFormat' | 'accessLogEncoding'>;

/** The mesh's access loggers; none when the mesh configuration names no file. */
export function accessLogs(mesh: LogConfig, view: ProxyCapabilities): envoy.config.accesslog.v3.AccessLog.Input[] {
  if (mesh.accessLogFile === '') return [];
  const stream = streamLog(mesh, view);
  if (stream !== undefined) return [stream];
  if (!hasExtension(view, FILE_ACCESS_LOG)) return [];
  const { FileAccessLog } = envoy.extensions.access_loggers.file.v3;
  return [typedConfig(FILE_ACCESS_LOG, FileAccessLog, { path: mesh.accessLogFile, logFormat: logFormat(mesh) })];
}

/**
 * The standard streams have loggers of their own: opened as files, they fail where the stream is a socket, as under
 * many process supervisors, and Envoy then refuses every listener.
 */
function streamLog(mesh: LogConfig, view: ProxyCapabilities): TypedConfig | undefined {
  const { StdoutAccessLog, StderrAccessLog } = envoy.extensions.access_loggers.stream.v3;
  if (mesh.accessLogFile === '/dev/stdout' && hasExtension(view, STDOUT_ACCESS_LOG)) {
    return typedConfig(STDOUT_ACCESS_LOG, StdoutAccessLog, { logFormat: logFormat(mesh) });
  }
  if (mesh.accessLogFile === '/dev/stderr' && hasExtension(view, STDERR_ACCESS_LOG)) {
    return typedConfig(STDERR_ACCESS_LOG, StderrAccessLog, { logFormat: logFormat(mesh) });
  }
  return undefined;
}

function logFormat({ accessLogFormat, accessLogEncoding }: LogConfig): LogFormat {
  if (accessLogEncoding === 'JSON') return { jsonFormat: toStruct(jsonObject(accessLogFormat) ?? DEFAULT_FIELDS) };
  const text = accessLogFormat === '' ? DEFAULT_TEXT : accessLogFormat;
  // Envoy writes the format as it is: without an end of line, lines would run together.
  return { textFormatSource: { inlineString: text.endsWith('\n') ? text : `${text}\n` } };
}

/** A format that is not a JSON object is ignored; then the default fields are logged rather than nothing. */
function jsonObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function toStruct(object: object): google.protobuf.Struct.Input {
  return { fields: Object.fromEntries(Object.entries(object).map(([key, value]) => [key, jsonValue(value)])) };
}

function jsonValue(value: unknown): google.protobuf.Value.Input {
  switch (typeof value) {
    case 'string':
      return { stringValue: value };
    case 'number':
      return { numberValue: value };
    case 'boolean':
      return { boolValue: value };
  }
  if (Array.isArray(value)) return { listValue: { values: value.map(jsonValue) } };
  return typeof value === 'object' && value !== null ? { structValue: toStruct(value) } : { nullValue: 0 };
}
