/** The HTTP connection manager for sidecars and gateways. */

import { envoy } from '../../protobuf/index.ts';
import { adsConfigSource, toDuration } from '../common/index.ts';
import {
  alpnFilter,
  announcesByFilter,
  CORS_FILTER,
  FAULT_FILTER,
  GRPC_STATS_FILTER,
  GRPC_WEB_FILTER,
  HTTP_CONNECTION_MANAGER,
  hasExtension,
  ON_DEMAND_FILTER,
  type ProxyCapabilities,
  ROUTER_FILTER,
  type Telemetry,
  telemetryOf,
  typedConfig,
} from '../filters/index.ts';
import { guardsPaths } from '../policies/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { EnvoyView } from '../views.ts';

const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
const { OnDemand } = envoy.extensions.filters.http.on_demand.v3;
type Manager = envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Input;
type HttpFilter = envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter.Input;
type NetworkFilter = envoy.config.listener.v3.Filter.Input;

const { UNESCAPE_AND_FORWARD } = HttpConnectionManager.PathWithEscapedSlashesAction;

/** Value of the `server` header in responses to clients outside the Pod. */
export const SERVER_NAME = 'mesh-envoy';

export type RouteSource =
  | { readonly rds: string }
  | { readonly inline: envoy.config.route.v3.RouteConfiguration.Input };

export interface HttpConnectionManagerOptions {
  readonly statPrefix: string;
  readonly routes: RouteSource;
  /** Whether clients are not trusted: the peer's address is used, and not `x-forwarded-for`. */
  readonly useRemoteAddress: boolean;
  /** Value of the `server` header; Envoy's own name when absent. */
  readonly serverName?: string;
  /** Whether a service behind it accepts gRPC-Web, which is then translated to gRPC. */
  readonly grpcWeb?: boolean;
  /** Filters of policies about requests: they come before all others. */
  readonly guards?: readonly HttpFilter[];
  /** Additional fields, such as client certificate details; they override those set here. */
  readonly extra?: Partial<Manager>;
}

/** The network filter that serves HTTP, under the policies of the view. */
export function httpConnectionManager(
  snapshot: MeshReader,
  view: EnvoyView,
  options: HttpConnectionManagerOptions,
): NetworkFilter {
  const guarded = view.part !== 'outbound' && guardsPaths(snapshot, view);
  const { mesh, settings } = snapshot;
  const telemetry = telemetryOf(snapshot, view);
  return buildManager({ mesh, settings, capabilities: view.capabilities, telemetry }, { guarded, alpn: [] }, options);
}

/** The inputs of a connection manager without policies about requests. */
export type ManagerSources = Pick<MeshReader, 'mesh' | 'settings'> &
  ProxyCapabilities & { readonly telemetry: Telemetry };

/** The network filter for requests of a sidecar's own application: policies apply to incoming requests only. */
export function outboundConnectionManager(
  sources: ManagerSources,
  options: Omit<HttpConnectionManagerOptions, 'guards'>,
): NetworkFilter {
  const { onDemand } = sources.capabilities;
  const alpn = announcesByFilter(sources.settings, sources) ? [alpnFilter()] : [];
  // Before the filters that depend on the route.
  const guards = onDemand !== undefined ? [typedConfig(ON_DEMAND_FILTER, OnDemand, {})] : [];
  return buildManager(sources, { guarded: false, alpn }, { ...options, guards });
}

function buildManager(
  sources: ManagerSources,
  { guarded, alpn }: { readonly guarded: boolean; readonly alpn: readonly HttpFilter[] },
  options: HttpConnectionManagerOptions,
): NetworkFilter {
  const { mesh, settings, capabilities, telemetry } = sources;
  const { routes } = options;
  return typedConfig(HTTP_CONNECTION_MANAGER, HttpConnectionManager, {
    statPrefix: options.statPrefix,
    ...('rds' in routes
      ? { rds: { configSource: adsConfigSource(settings.initialFetchTimeoutMs), routeConfigName: routes.rds } }
      : { routeConfig: routes.inline }),
    httpFilters: [...(options.guards ?? []), ...httpFilters(sources, telemetry, options.grpcWeb ?? false, alpn)],
    accessLog: telemetry.requestLogs,
    ...(telemetry.tracing !== undefined && { tracing: telemetry.tracing }),
    ...(telemetry.requestId !== undefined && { requestIdExtension: telemetry.requestId }),
    useRemoteAddress: { value: options.useRemoteAddress },
    ...(options.serverName !== undefined && { serverName: options.serverName }),
    ...((settings.http10 || capabilities.http10) && { httpProtocolOptions: { acceptHttp_10: true } }),
    ...(capabilities.idleTimeoutMs !== undefined && {
      commonHttpProtocolOptions: { idleTimeout: toDuration(capabilities.idleTimeoutMs) },
    }),
    upgradeConfigs: [{ upgradeType: 'websocket' }],
    // Without a timeout: the application decides about long polls and idle gRPC streams, which Envoy would end after
    // five minutes.
    streamIdleTimeout: toDuration(0),
    // A complete name may end with a dot (RFC 3986, section 3.2.2). Envoy removes it before policies and routes see it.
    stripTrailingHostDot: true,
    ...pathNormalization(mesh, guarded),
    ...options.extra,
  });
}

/** The router is last; the other filters only act if routes or content types require it. */
function httpFilters(
  view: ProxyCapabilities,
  { statsFilter }: Telemetry,
  grpcWeb: boolean,
  alpn: readonly HttpFilter[],
): HttpFilter[] {
  const http = envoy.extensions.filters.http;
  const filters: HttpFilter[] = [];
  if (grpcWeb && hasExtension(view, GRPC_WEB_FILTER)) {
    filters.push(typedConfig(GRPC_WEB_FILTER, http.grpc_web.v3.GrpcWeb, {}));
  }
  if (hasExtension(view, GRPC_STATS_FILTER)) {
    // One set of counters for all methods: with a set for each, clients could exhaust memory with invented names.
    const config = { emitFilterState: true, statsForAllMethods: { value: false } };
    filters.push(typedConfig(GRPC_STATS_FILTER, http.grpc_stats.v3.FilterConfig, config));
  }
  filters.push(...alpn);
  if (hasExtension(view, CORS_FILTER)) filters.push(typedConfig(CORS_FILTER, http.cors.v3.Cors, {}));
  if (hasExtension(view, FAULT_FILTER)) filters.push(typedConfig(FAULT_FILTER, http.fault.v3.HTTPFault, {}));
  // Counts requests after the changes of earlier filters.
  if (statsFilter !== undefined) filters.push(statsFilter);
  filters.push(typedConfig(ROUTER_FILTER, http.router.v3.Router, {}));
  return filters;
}

/**
 * How paths are normalized before policies and routes match them. The mesh configuration decides; by default (DEFAULT)
 * it is RFC 3986 normalization (dots, escaped letters): without it, `/admin/../x` would bypass rules about `/admin`. If
 * a policy here matches paths, repeated slashes, escaped slashes and backslashes are normalized to single slashes too:
 * many applications treat `//admin` and `/x%2f..%2fadmin` as `/admin`.
 */
function pathNormalization(mesh: MeshReader['mesh'], guarded: boolean): Partial<Manager> {
  const { normalization } = mesh.pathNormalization;
  switch (normalization) {
    case 'NONE':
      return { normalizePath: { value: false } };
    case 'DEFAULT':
      return guarded ? ALL_SLASHES : DOTS_AND_LETTERS;
    case 'BASE':
      return DOTS_AND_LETTERS;
    case 'MERGE_SLASHES':
      return { ...DOTS_AND_LETTERS, mergeSlashes: true };
    case 'DECODE_AND_MERGE_SLASHES':
      return ALL_SLASHES;
  }
}

const DOTS_AND_LETTERS: Partial<Manager> = { normalizePath: { value: true } };
const ALL_SLASHES: Partial<Manager> = {
  ...DOTS_AND_LETTERS,
  mergeSlashes: true,
  pathWithEscapedSlashesAction: UNESCAPE_AND_FORWARD,
};
