/**
 * Rate limits of Thrift calls, as in Istio 1.7: with `thriftConfig` of the mesh configuration, clients query a rate
 * limit service for each call to a Thrift port, with the host of the port as domain and the cluster of the client's
 * node as the descriptor `source_cluster`. If it does not respond in time, the call is allowed.
 */
import { canonicalHost, type Protocol } from '../../model/index.ts';
import { envoy } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import { clusterName, scopeOfView, toDuration } from '../common/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { EnvoyView } from '../views.ts';
import {
  listsExtension,
  type ProxyCapabilities,
  THRIFT_FILTER,
  THRIFT_RATE_LIMIT_FILTER,
  THRIFT_ROUTER_FILTER,
  type TypedConfig,
  typedConfig,
} from './extensions.ts';

const DEFAULT_PORT = 8081;

export interface ThriftRateLimit {
  /** The host of the called service. */
  readonly domain: string;
  readonly cluster: string;
  /** The host of the rate limit service. */
  readonly authority: string;
  readonly timeoutMs: number;
}

/** Undefined if there is no rate limit service for ports of the protocol. */
export function thriftRateLimit(
  mesh: MeshConfig,
  protocol: Protocol | undefined,
  domain: string,
): ThriftRateLimit | undefined {
  const limiter = protocol === 'Thrift' ? thriftLimiter(mesh) : undefined;
  if (limiter === undefined) return undefined;
  const { host, port } = limiter;
  const cluster = clusterName('outbound', port, '', host);
  return { domain, cluster, authority: host, timeoutMs: mesh.thriftConfig.rateLimitTimeout };
}

/** The rate limit service of the mesh configuration. */
export function thriftLimiter({
  thriftConfig,
}: MeshConfig): { readonly host: string; readonly port: number } | undefined {
  const [host = '', port = DEFAULT_PORT] = thriftConfig.rateLimitUrl.split(':');
  return host === '' ? undefined : { host: canonicalHost(host), port: Number(port) };
}

/** The Thrift filters of a limited port; none if the proxies do not list the extension. */
export function thriftLimitFilters(view: ProxyCapabilities, limit: ThriftRateLimit | undefined): TypedConfig[] {
  if (limit === undefined || !listsExtension(view, THRIFT_RATE_LIMIT_FILTER)) return [];
  const { filters, router } = envoy.extensions.filters.network.thrift_proxy;
  const { domain, cluster, authority, timeoutMs } = limit;
  return [
    typedConfig(THRIFT_RATE_LIMIT_FILTER, filters.ratelimit.v3.RateLimit, {
      domain,
      timeout: toDuration(timeoutMs),
      rateLimitService: {
        // Otherwise Envoy sends the name of the cluster, which servers reject: `|` is not valid in authorities.
        grpcService: { envoyGrpc: { clusterName: cluster, authority } },
        transportApiVersion: envoy.config.core.v3.ApiVersion.V3,
      },
    }),
    typedConfig(THRIFT_ROUTER_FILTER, router.v3.Router, {}),
  ];
}

/** The descriptor of a call to a limited port. */
export const BY_SOURCE: envoy.config.route.v3.RateLimit.Input = { actions: [{ sourceCluster: {} }] };

/**
 * Why the view's proxies do not limit calls: one line each.
 * @param protocols of the connections that the view's proxies forward
 */
export function thriftLimitProblems(
  snapshot: MeshReader,
  view: EnvoyView,
  protocols: () => Iterable<Protocol | undefined>,
): readonly string[] {
  const { settings, mesh } = snapshot;
  const limiter = settings.thriftFilter && listsExtension(view, THRIFT_FILTER) ? thriftLimiter(mesh) : undefined;
  if (limiter === undefined || !Iterator.from(protocols()).some((each) => each === 'Thrift')) return [];
  const { host, port } = limiter;
  const unlimited = 'calls of Thrift are not limited';
  if (!listsExtension(view, THRIFT_RATE_LIMIT_FILTER))
    return [`thriftConfig: ${unlimited}: the proxy's Envoy has no ${THRIFT_RATE_LIMIT_FILTER}`];
  const service = scopeOfView(snapshot, view)?.services.get(host);
  if (service?.ports.some((each) => each.port === port && each.protocol !== 'UDP') === true) return [];
  return [`thriftConfig: ${unlimited}: the proxy sees no service ${host} with port ${port}`];
}
