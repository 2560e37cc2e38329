/** Where the Envoy of this agent sends spans, access logs and metrics, according to the proxy configuration. */
import { isObject } from '../core/objects.ts';
import type { RemoteServices } from './bootstrap/services.ts';
import type { AgentProxyConfig } from './settings/proxy-config.ts';
import { remoteService, tlsOf } from './settings/remote-service.ts';

/** Tracers of Istio's proxy configuration that no supported Envoy has. */
const MISSING_TRACERS = ['lightstep', 'stackdriver', 'openCensusAgent'] as const;

export interface ServicesPlan {
  readonly services: RemoteServices;
  /** Settings without effect, one line each. */
  readonly warnings: readonly string[];
}

/** Throws a CtlError that names the field. @param certified whether the agent has certificates of the mesh */
export function planServices(proxyConfig: AgentProxyConfig, certified: boolean): ServicesPlan {
  const { tracing = {}, envoyAccessLogService, envoyMetricsService } = proxyConfig;
  const zipkin = remoteService(tracing.zipkin, 'tracing.zipkin', certified);
  const datadog = remoteService(tracing.datadog, 'tracing.datadog', certified);
  const tls = tlsOf(tracing.tlsSettings, 'tracing.tlsSettings', certified);
  const accessLog = remoteService(envoyAccessLogService, 'envoyAccessLogService', certified);
  const metrics = remoteService(envoyMetricsService, 'envoyMetricsService', certified);
  const missing = MISSING_TRACERS.filter((name) => tracing[name] !== undefined);
  const both = zipkin !== undefined && datadog !== undefined;
  return {
    services: {
      ...(zipkin !== undefined && { zipkin: { ...zipkin, ...(tls && { tls }) } }),
      ...(datadog !== undefined && !both && { datadog: { ...datadog, ...(tls && { tls }) } }),
      ...(accessLog !== undefined && { accessLog }),
      ...(metrics !== undefined && { metrics }),
    },
    warnings: [
      ...missing.map((name) => `tracing.${name} has no effect: no supported Envoy has this tracer`),
      ...idleTls('tracing', tracing),
      ...idleTls('envoyAccessLogService', envoyAccessLogService),
      ...idleTls('envoyMetricsService', envoyMetricsService),
      ...(both ? ['tracing.datadog has no effect: tracing.zipkin is used'] : []),
    ],
  };
}

/** Settings of its TLS that an agent has no use for. */
function idleTls(field: string, service: unknown): readonly string[] {
  const tls = isObject(service) && isObject(service.tlsSettings) ? service.tlsSettings : {};
  return [
    ...(tls.credentialName === undefined ? [] : ['credentialName has no effect: the agent reads files, not Secrets']),
    ...(tls.insecureSkipVerify === true ? ['insecureSkipVerify has no effect: the server is always verified'] : []),
  ].map((warning) => `${field}.tlsSettings.${warning}`);
}

/**
 * Variables from which the tracers of Envoy take the name of the service that spans are of: their configuration is the
 * same for many proxies. Zipkin's takes it from the node.
 */
export function serviceNames(cluster: string, namespace: string): Readonly<Record<string, string>> {
  return {
    OTEL_RESOURCE_ATTRIBUTES: `service.name=${escaped(cluster)},service.namespace=${escaped(namespace)}`,
    DD_SERVICE: cluster,
  };
}

/** Values are percent-encoded: https://opentelemetry.io/docs/specs/otel/resource/sdk/. */
function escaped(text: string): string {
  return encodeURIComponent(text);
}
