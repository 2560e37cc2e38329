/** Access loggers: files or standard streams with lines of text or JSON, and access log services. */
import { isObject } from '../../../core/objects.ts';
import { envoy, type google, type opentelemetry } from '../../../protobuf/index.ts';
import { API_VERSION_V3 } from '../../common/index.ts';
import {
  type AskedExtension,
  CEL_LOG_FILTER,
  FILE_ACCESS_LOG,
  HTTP_GRPC_ACCESS_LOG,
  hasExtension,
  OPENTELEMETRY_ACCESS_LOG,
  type ProxyCapabilities,
  STDERR_ACCESS_LOG,
  STDOUT_ACCESS_LOG,
  TCP_GRPC_ACCESS_LOG,
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

/** The format and target of a logger; plain data that is compared by value. */
export type LogPlan = (FileLog | ServiceLog | OpenTelemetryLog) & {
  /** An expression of CEL that is true for what is logged; absent: everything is. */
  readonly only?: string;
};

export interface FileLog {
  readonly to: 'file';
  readonly path: string;
  readonly format: LogFormatPlan;
  readonly omitEmptyValues?: boolean;
}

/** A line of text, a JSON object, or the default of one of them. */
export interface LogFormatPlan {
  readonly json: boolean;
  readonly text?: string;
  readonly object?: Readonly<Record<string, unknown>>;
}

/** Envoy's gRPC access log service, for requests or for connections. */
export interface ServiceLog {
  readonly to: 'service';
  readonly of: 'requests' | 'connections';
  readonly cluster: string;
  /** Absent: the name of the cluster. */
  readonly authority?: string;
  readonly logName: string;
  readonly filterState?: readonly string[];
  readonly requestHeaders?: readonly string[];
  readonly responseHeaders?: readonly string[];
  readonly responseTrailers?: readonly string[];
  /** Metadata of the stream. */
  readonly metadata?: { readonly key: string; readonly value: string };
}

export interface OpenTelemetryLog {
  readonly to: 'opentelemetry';
  readonly cluster: string;
  readonly authority: string;
  readonly logName: string;
  readonly text?: string;
  readonly labels?: Readonly<Record<string, unknown>>;
}

/**
 * The logger of requests or of connections; undefined if the proxy's Envoy does not support it, or it is not for these.
 */
export function accessLog(
  plan: LogPlan,
  of: ServiceLog['of'],
  view: ProxyCapabilities,
): envoy.config.accesslog.v3.AccessLog.Input | undefined {
  const logger = loggerOf(plan, of, view);
  return logger === undefined || plan.only === undefined ? logger : { ...logger, filter: celFilter(plan.only) };
}

function celFilter(expression: string): envoy.config.accesslog.v3.AccessLogFilter.Input {
  const { ExpressionFilter } = envoy.extensions.access_loggers.filters.cel.v3;
  return { extensionFilter: typedConfig(CEL_LOG_FILTER, ExpressionFilter, { expression }) };
}

function loggerOf(plan: LogPlan, of: ServiceLog['of'], view: ProxyCapabilities): TypedConfig | undefined {
  switch (plan.to) {
    case 'file':
      return fileLog(plan, view);
    case 'service':
      return plan.of === of && hasExtension(view, SERVICE_LOGGERS[of]) ? serviceLog(plan) : undefined;
    case 'opentelemetry':
      return hasExtension(view, OPENTELEMETRY_ACCESS_LOG) ? openTelemetryLog(plan, view) : undefined;
  }
}

function fileLog(plan: FileLog, view: ProxyCapabilities): TypedConfig | undefined {
  const stream = streamLog(plan, view);
  if (stream !== undefined) return stream;
  if (!hasExtension(view, FILE_ACCESS_LOG)) return undefined;
  const { FileAccessLog } = envoy.extensions.access_loggers.file.v3;
  return typedConfig(FILE_ACCESS_LOG, FileAccessLog, { path: plan.path, logFormat: logFormat(plan) });
}

/**
 * The standard streams have their own loggers: opened as files, they fail if the stream is a socket, as under many
 * process supervisors, and Envoy then refuses every listener.
 */
function streamLog(plan: FileLog, view: ProxyCapabilities): TypedConfig | undefined {
  const { StdoutAccessLog, StderrAccessLog } = envoy.extensions.access_loggers.stream.v3;
  if (plan.path === '/dev/stdout' && hasExtension(view, STDOUT_ACCESS_LOG)) {
    return typedConfig(STDOUT_ACCESS_LOG, StdoutAccessLog, { logFormat: logFormat(plan) });
  }
  if (plan.path === '/dev/stderr' && hasExtension(view, STDERR_ACCESS_LOG)) {
    return typedConfig(STDERR_ACCESS_LOG, StderrAccessLog, { logFormat: logFormat(plan) });
  }
  return undefined;
}

function logFormat({ format: { json, text = '', object }, omitEmptyValues }: FileLog): LogFormat {
  const omit = omitEmptyValues === true && { omitEmptyValues };
  if (json) return { jsonFormat: toStruct(object ?? DEFAULT_FIELDS), ...omit };
  const line = text === '' ? DEFAULT_TEXT : text;
  // Envoy writes the format as it is: without an end of line, lines would run together.
  return { textFormatSource: { inlineString: line.endsWith('\n') ? line : `${line}\n` }, ...omit };
}

/** `accessLogFormat` of the mesh configuration, which is a string even if the encoding is JSON. */
export function writtenFormat(text: string, encoding: 'TEXT' | 'JSON'): LogFormatPlan {
  if (encoding === 'TEXT') return { json: false, text };
  const object = jsonObject(text);
  return { json: true, ...(object !== undefined && { object }) };
}

const SERVICE_LOGGERS = {
  requests: HTTP_GRPC_ACCESS_LOG,
  connections: TCP_GRPC_ACCESS_LOG,
} as const satisfies Record<ServiceLog['of'], AskedExtension>;

function serviceLog(plan: ServiceLog): TypedConfig {
  const { HttpGrpcAccessLogConfig, TcpGrpcAccessLogConfig } = envoy.extensions.access_loggers.grpc.v3;
  const { cluster, authority, logName, filterState = [], of, metadata } = plan;
  const commonConfig: envoy.extensions.access_loggers.grpc.v3.CommonGrpcAccessLogConfig.Input = {
    logName,
    transportApiVersion: API_VERSION_V3,
    grpcService: {
      envoyGrpc: { clusterName: cluster, ...(authority !== undefined && { authority }) },
      ...(metadata !== undefined && { initialMetadata: [metadata] }),
    },
    filterStateObjectsToLog: filterState,
  };
  if (of === 'connections') return typedConfig(TCP_GRPC_ACCESS_LOG, TcpGrpcAccessLogConfig, { commonConfig });
  return typedConfig(HTTP_GRPC_ACCESS_LOG, HttpGrpcAccessLogConfig, {
    commonConfig,
    additionalRequestHeadersToLog: plan.requestHeaders ?? [],
    additionalResponseHeadersToLog: plan.responseHeaders ?? [],
    additionalResponseTrailersToLog: plan.responseTrailers ?? [],
  });
}

function openTelemetryLog(
  { cluster, authority, logName, text, labels = {} }: OpenTelemetryLog,
  { capabilities }: ProxyCapabilities,
): TypedConfig {
  const { OpenTelemetryAccessLogConfig } = envoy.extensions.access_loggers.open_telemetry.v3;
  const grpcService = { envoyGrpc: { clusterName: cluster, authority } };
  const values = Object.entries(labels).map(([key, value]) => ({ key, value: { stringValue: labelText(value) } }));
  const body: opentelemetry.proto.common.v1.AnyValue.Input = { stringValue: text ?? DEFAULT_TEXT.trimEnd() };
  return typedConfig(OPENTELEMETRY_ACCESS_LOG, OpenTelemetryAccessLogConfig, {
    ...(capabilities.fieldsOf140 === true
      ? { grpcService, logName }
      : { commonConfig: { logName, transportApiVersion: API_VERSION_V3, grpcService } }),
    body,
    ...(values.length > 0 && { attributes: { values } }),
  });
}

/** Attributes of log records are strings here: command operators have no other results. */
function labelText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A format that is not a JSON object is ignored, and the default fields are logged instead. */
function jsonObject(text: string): Readonly<Record<string, unknown>> | undefined {
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
