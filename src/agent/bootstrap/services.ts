/**
 * Services that Envoy's bootstrap configures and to which Envoy sends telemetry: spans (`tracing`), access logs
 * (`envoyAccessLogService`) and metrics (`envoyMetricsService`). Listeners name the cluster of access logs
 * (`core/proxy.ts`).
 */
import { isIP } from 'node:net';
import { ACCESS_LOG_CLUSTER } from '../../core/proxy.ts';
import type { JsonObject } from '../../protobuf/index.ts';
import type { RemoteService, TlsFiles } from '../settings/remote-service.ts';
import { address, CERTIFICATE_SECRET, endpoint, http2, members, ROOTS_SECRET, secret } from './parts.ts';

export interface RemoteServices {
  readonly zipkin?: RemoteService;
  readonly datadog?: RemoteService;
  readonly accessLog?: RemoteService;
  readonly metrics?: RemoteService;
}

/** As the bootstrap of Istio's agent names them. */
const ZIPKIN_CLUSTER = 'zipkin';
const DATADOG_CLUSTER = 'datadog_agent';
const METRICS_CLUSTER = 'envoy_metrics_service';

export function serviceClusters({ zipkin, datadog, accessLog, metrics }: RemoteServices): JsonObject[] {
  return [
    ...(zipkin === undefined ? [] : [cluster(ZIPKIN_CLUSTER, zipkin, false)]),
    ...(datadog === undefined ? [] : [cluster(DATADOG_CLUSTER, datadog, false)]),
    ...(accessLog === undefined ? [] : [cluster(ACCESS_LOG_CLUSTER, accessLog, true)]),
    ...(metrics === undefined ? [] : [cluster(METRICS_CLUSTER, metrics, true)]),
  ];
}

/** @param grpc whether the service speaks gRPC, and so HTTP/2 */
function cluster(name: string, { host, port, tls, keepalive }: RemoteService, grpc: boolean): JsonObject {
  return {
    name,
    type: isIP(host) === 0 ? 'STRICT_DNS' : 'STATIC',
    ...(isIP(host) === 0 ? { dns_lookup_family: 'ALL', respect_dns_ttl: true } : {}),
    connect_timeout: '1s',
    ...members(name, endpoint(address(host, port))),
    ...(keepalive === undefined ? {} : { upstream_connection_options: { tcp_keepalive: keepalive } }),
    ...(grpc ? http2({}) : {}),
    ...(tls === undefined ? {} : { transport_socket: upstreamTls(tls, host, grpc) }),
  };
}

function upstreamTls(tls: TlsFiles, host: string, grpc: boolean): JsonObject {
  const sni = tls.sni ?? (isIP(host) === 0 ? host : undefined);
  return {
    name: 'envoy.transport_sockets.tls',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
      ...(sni === undefined ? {} : { sni }),
      common_tls_context: {
        ...(grpc ? { alpn_protocols: ['h2'] } : {}),
        ...certificates(tls),
        ...validation(tls),
      },
    },
  };
}

function certificates({ mesh, certificate, key }: TlsFiles): JsonObject {
  if (mesh) return { tls_certificate_sds_secret_configs: [secret(CERTIFICATE_SECRET)] };
  if (certificate === undefined || key === undefined) return {};
  return { tls_certificates: [{ certificate_chain: { filename: certificate }, private_key: { filename: key } }] };
}

function validation({ mesh, roots, crl, names }: TlsFiles): JsonObject {
  // Envoy refuses an empty context, and one with names needs roots, which `remote-service.ts` requires.
  const matchers = names.flatMap((exact) =>
    ['DNS', 'URI'].map((type): JsonObject => ({ san_type: type, matcher: { exact } })),
  );
  const context = {
    ...(matchers.length > 0 && { match_typed_subject_alt_names: matchers }),
    ...(crl !== undefined && { crl: { filename: crl } }),
  };
  if (mesh) {
    return {
      combined_validation_context: {
        default_validation_context: context,
        validation_context_sds_secret_config: secret(ROOTS_SECRET),
      },
    };
  }
  return roots === undefined ? {} : { validation_context: { trusted_ca: { filename: roots }, ...context } };
}

/** The tracer of listeners whose `tracing` names no provider. */
export function tracer({ zipkin, datadog }: RemoteServices): JsonObject {
  if (zipkin !== undefined) {
    return tracing('envoy.tracers.zipkin', {
      '@type': 'type.googleapis.com/envoy.config.trace.v3.ZipkinConfig',
      collector_cluster: ZIPKIN_CLUSTER,
      collector_hostname: zipkin.host,
      collector_endpoint: '/api/v2/spans',
      collector_endpoint_version: 'HTTP_JSON',
      trace_id_128bit: true,
      shared_span_context: false,
    });
  }
  if (datadog === undefined) return {};
  return tracing('envoy.tracers.datadog', {
    '@type': 'type.googleapis.com/envoy.config.trace.v3.DatadogConfig',
    collector_cluster: DATADOG_CLUSTER,
    collector_hostname: datadog.host,
    service_name: 'envoy',
  });
}

function tracing(name: string, config: JsonObject): JsonObject {
  return { tracing: { http: { name, typed_config: config } } };
}

export function metricsSink(): JsonObject {
  return {
    name: 'envoy.stat_sinks.metrics_service',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.config.metrics.v3.MetricsServiceConfig',
      transport_api_version: 'V3',
      grpc_service: { envoy_grpc: { cluster_name: METRICS_CLUSTER } },
    },
  };
}
