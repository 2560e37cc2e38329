/** The HTTP connection manager: what turns a connection's bytes into requests, for sidecars and gateways alike. */

import { envoy } from '../../protobuf/index.ts';
import { adsConfigSource, durationOf } from '../common/index.ts';
import {
  accessLogs,
  CORS_FILTER,
  FAULT_FILTER,
  GRPC_STATS_FILTER,
  GRPC_WEB_FILTER,
  HTTP_CONNECTION_MANAGER,
  hasExtension,
  type ProxyCapabilities,
  ROUTER_FILTER,
  typedConfig,
} from '../filters/index.ts';
import { guardsPaths } from '../policies/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { View } from '../types.ts';

const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
type Manager = envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Input;
type HttpFilter = envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter.Input;
type NetworkFilter = envoy.config.listener.v3.Filter.Input;

const { UNESCAPE_AND_FORWARD } = HttpConnectionManager.PathWithEscapedSlashesAction;

/** How proxies call themselves in the `server` header of what they answer to clients from outside their pod. */
export const SERVER_NAME = 'mesh-envoy';

/** Where the routes of a connection manager come from. */
export type RouteSource =
  /** Name of a route configuration that Envoy asks for. */
  { readonly rds: string } | { readonly inline: envoy.config.route.v3.RouteConfiguration.Input };

export interface HttpConnectionManagerOptions {
  readonly statPrefix: string;
  readonly routes: RouteSource;
  /** True where clients are not trusted to say who they are: the peer's address counts, not `x-forwarded-for`. */
  readonly useRemoteAddress: boolean;
  /** Value of the `server` header; Envoy's own name when absent. */
  readonly serverName?: string;
  /** Whether some service behind it takes gRPC-Web, which is then translated to gRPC. */
  readonly grpcWeb?: boolean;
  /** Filters of policies about requests: they stand before all others. */
  readonly guards?: readonly HttpFilter[];
  /** Fields that only some callers set (client certificate details, …); they win over those set here. */
  readonly extra?: Partial<Manager>;
}

/** The network filter that serves HTTP, under the policies that hold for the view. */
export function httpConnectionManager(
  snapshot: MeshReader,
  view: View,
  options: HttpConnectionManagerOptions,
): NetworkFilter {
  const guarded = view.part !== 'outbound' && guardsPaths(snapshot, view);
  return managerOf(
    { mesh: snapshot.mesh, settings: snapshot.settings, capabilities: view.capabilities },
    guarded,
    options,
  );
}

/** All that a connection manager is made of where no policies about requests hold. */
export type ManagerSources = Pick<MeshReader, 'mesh' | 'settings'> & ProxyCapabilities;

/** The network filter of requests that a sidecar's own application sends: policies are for those that come in. */
export function outboundConnectionManager(
  sources: ManagerSources,
  options: Omit<HttpConnectionManagerOptions, 'guards'>,
): NetworkFilter {
  return managerOf(sources, false, options);
}

function managerOf(sources: ManagerSources, guarded: boolean, options: HttpConnectionManagerOptions): NetworkFilter {
  const { mesh, settings } = sources;
  const { routes } = options;
  return typedConfig(HTTP_CONNECTION_MANAGER, HttpConnectionManager, {
    statPrefix: options.statPrefix,
    ...('rds' in routes
      ? { rds: { configSource: adsConfigSource(settings.initialFetchTimeoutMs), routeConfigName: routes.rds } }
      : { routeConfig: routes.inline }),
    httpFilters: [...(options.guards ?? []), ...httpFilters(sources, options.grpcWeb ?? false)],
    accessLog: accessLogs(mesh, sources),
    useRemoteAddress: { value: options.useRemoteAddress },
    ...(options.serverName !== undefined && { serverName: options.serverName }),
    ...(settings.http10 && { httpProtocolOptions: { acceptHttp_10: true } }),
    upgradeConfigs: [{ upgradeType: 'websocket' }],
    // Long polls and idle gRPC streams are the application's business; Envoy would end them after five minutes.
    streamIdleTimeout: durationOf(0),
    ...pathNormalization(mesh, guarded),
    ...options.extra,
  });
}

/** The router comes last; everything else acts only where routes or content types say so. */
function httpFilters(view: ProxyCapabilities, grpcWeb: boolean): HttpFilter[] {
  const http = envoy.extensions.filters.http;
  const filters: HttpFilter[] = [];
  if (grpcWeb && hasExtension(view, GRPC_WEB_FILTER)) {
    filters.push(typedConfig(GRPC_WEB_FILTER, http.grpc_web.v3.GrpcWeb, {}));
  }
  if (hasExtension(view, GRPC_STATS_FILTER)) {
    // One set of counters for all methods: a set for each would let clients fill the memory with made-up names.
    const config = { emitFilterState: true, statsForAllMethods: { value: false } };
    filters.push(typedConfig(GRPC_STATS_FILTER, http.grpc_stats.v3.FilterConfig, config));
  }
  if (hasExtension(view, CORS_FILTER)) filters.push(typedConfig(CORS_FILTER, http.cors.v3.Cors, {}));
  if (hasExtension(view, FAULT_FILTER)) filters.push(typedConfig(FAULT_FILTER, http.fault.v3.HTTPFault, {}));
  filters.push(typedConfig(ROUTER_FILTER, http.router.v3.Router, {}));
  return filters;
}

/**
 * How paths are made equal before policies and routes look at them. What the mesh configuration asks for is done; where
 * it asks for nothing (DEFAULT), RFC 3986 normalisation (dots, escaped letters): without it, `/admin/../x` slips past
 * rules about `/admin`. And where some policy here speaks of paths, slashes that are doubled, escaped or written
 * backwards are made plain slashes too: many applications take `//admin` and `/x%2f..%2fadmin` for `/admin`.
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
