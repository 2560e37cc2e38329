/** Extension providers as access loggers. */
import { ACCESS_LOG_CLUSTER } from '../../../core/proxy.ts';
import type { ExtensionProvider, MeshConfig } from '../../../resources/index.ts';
import type { ScopeReader } from '../../reads/index.ts';
import { type LogPlan, writtenFormat } from './access-log.ts';
import { collectorOf, type Unavailable } from './providers.ts';

const HTTP_LOG = 'http_envoy_accesslog';
const TCP_LOG = 'tcp_envoy_accesslog';
const OPENTELEMETRY_LOG = 'otel_envoy_accesslog';

/** The loggers of the mesh configuration, used without default providers and Telemetry documents. */
export function meshLogs(mesh: MeshConfig): LogPlan[] {
  const logs: LogPlan[] = [];
  if (mesh.accessLogFile !== '') {
    const format = writtenFormat(mesh.accessLogFormat, mesh.accessLogEncoding);
    logs.push({ to: 'file', path: mesh.accessLogFile, format });
  }
  if (mesh.enableEnvoyAccessLogService) {
    logs.push({ to: 'service', of: 'requests', cluster: ACCESS_LOG_CLUSTER, logName: HTTP_LOG });
    logs.push({ to: 'service', of: 'connections', cluster: ACCESS_LOG_CLUSTER, logName: TCP_LOG });
  }
  return logs;
}

export function logOf(scope: ScopeReader | undefined, provider: ExtensionProvider): LogPlan | Unavailable {
  const { name, envoyFileAccessLog: file, envoyHttpAls, envoyTcpAls, envoyOtelAls } = provider;
  const kinds = [file, envoyHttpAls, envoyTcpAls, envoyOtelAls].filter((each) => each !== undefined);
  if (kinds.length !== 1) {
    const expected = 'exactly one of envoyFileAccessLog, envoyHttpAls, envoyTcpAls, envoyOtelAls';
    return { problem: `extension provider ${name}: access logs need ${expected}` };
  }
  if (file !== undefined) return fileOf(file);
  const config = envoyHttpAls ?? envoyTcpAls ?? envoyOtelAls;
  if (config === undefined) return { problem: `extension provider ${name} has no service` };
  const collector = collectorOf(scope, name, config);
  if ('problem' in collector) return collector;
  const { cluster, host: authority } = collector;
  if (envoyOtelAls !== undefined) {
    const { logName = OPENTELEMETRY_LOG, logFormat: { text, labels } = {} } = envoyOtelAls;
    const format = { ...(text !== undefined && { text }), ...(labels !== undefined && { labels }) };
    return { to: 'opentelemetry', cluster, authority, logName, ...format };
  }
  if (envoyTcpAls !== undefined) {
    const { logName = TCP_LOG, filterStateObjectsToLog: filterState = [] } = envoyTcpAls;
    return { to: 'service', of: 'connections', cluster, authority, logName, filterState };
  }
  return {
    to: 'service',
    of: 'requests',
    cluster,
    authority,
    logName: envoyHttpAls?.logName ?? HTTP_LOG,
    filterState: envoyHttpAls?.filterStateObjectsToLog ?? [],
    requestHeaders: envoyHttpAls?.additionalRequestHeadersToLog ?? [],
    responseHeaders: envoyHttpAls?.additionalResponseHeadersToLog ?? [],
    responseTrailers: envoyHttpAls?.additionalResponseTrailersToLog ?? [],
  };
}

function fileOf({ path, logFormat, omitEmptyValues }: NonNullable<ExtensionProvider['envoyFileAccessLog']>): LogPlan {
  const { text, labels } = logFormat ?? {};
  const format =
    labels === undefined ? { json: false, ...(text !== undefined && { text }) } : { json: true, object: labels };
  return { to: 'file', path, format, ...(omitEmptyValues === true && { omitEmptyValues }) };
}
