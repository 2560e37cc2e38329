/** Which listener, virtual host and route of a proxy's configuration a request is for, as Envoy decides it. */
import { BlockList, isIP } from 'node:net';
import { type envoy, type google, envoy as messages } from '../../protobuf/index.ts';
import type { Destination } from './destination.ts';

type Listener = envoy.config.listener.v3.Listener;
type FilterChain = envoy.config.listener.v3.FilterChain;
type VirtualHost = envoy.config.route.v3.VirtualHost;
type Route = envoy.config.route.v3.Route;

const { HttpConnectionManager } = messages.extensions.filters.network.http_connection_manager.v3;
const { TcpProxy } = messages.extensions.filters.network.tcp_proxy.v3;
const { OUTBOUND } = messages.config.core.v3.TrafficDirection;
const WILDCARDS = ['0.0.0.0', '::'];

/**
 * The outbound listener of a connection to one of these addresses and a port: one for an address of its own, else one
 * for all addresses, else the one that the workload itself calls, as where connections are not redirected.
 */
export function listenerFor(
  listeners: readonly Listener[],
  addresses: readonly string[],
  { port }: Destination,
): Listener | undefined {
  const atPort = listeners.filter((one) => socketsOf(one).some(({ portValue }) => portValue === port));
  const at = (hosts: readonly string[]) =>
    atPort.find((one) => socketsOf(one).some(({ address }) => hosts.includes(address ?? '')));
  return at(addresses) ?? at(WILDCARDS) ?? atPort.find(({ trafficDirection }) => trafficDirection === OUTBOUND);
}

function socketsOf({ address, additionalAddresses = [] }: Listener) {
  return [address, ...additionalAddresses.map((more) => more.address)].flatMap((one) => one?.socketAddress ?? []);
}

/** Where the filters of a chain lead to. */
export type Next =
  | { readonly kind: 'http'; readonly routeName: string; readonly inline: readonly VirtualHost[] }
  | { readonly kind: 'tcp'; readonly clusters: readonly Weighted[] };

export interface Weighted {
  readonly name: string;
  readonly weight?: number;
}

/** The first chain that fits: by server name for TLS, else one for HTTP, else one for TCP. */
export function nextOf(listener: Listener, addresses: readonly string[], destination: Destination): Next | undefined {
  const { host, tls } = destination;
  const { filterChains = [], defaultFilterChain } = listener;
  const names = (chain: FilterChain) => chain.filterChainMatch?.serverNames ?? [];
  const fitting = filterChains.filter((chain) => isFor(chain, addresses, destination));
  const chains = [...fitting, ...(defaultFilterChain == null ? [] : [defaultFilterChain])];
  const named = chains.filter((chain) => names(chain).some((name) => domainRank(name, [host]) > 0));
  const unnamed = chains.filter((chain) => names(chain).length === 0);
  const found = [...(tls ? named : []), ...unnamed].flatMap((chain) => leadsTo(chain) ?? []);
  const http = tls ? undefined : found.find(({ kind }) => kind === 'http');
  return http ?? found.find(({ kind }) => kind === 'tcp') ?? found[0];
}

/** Whether the port and the addresses of a chain, if it has any, are those of the destination. */
function isFor({ filterChainMatch }: FilterChain, addresses: readonly string[], { port }: Destination): boolean {
  const { destinationPort, prefixRanges = [] } = filterChainMatch ?? {};
  if (destinationPort?.value != null && destinationPort.value !== port) return false;
  if (prefixRanges.length === 0) return true;
  const ranges = new BlockList();
  for (const { addressPrefix = '', prefixLen } of prefixRanges) {
    const family = isIP(addressPrefix);
    if (family !== 0) ranges.addSubnet(addressPrefix, prefixLen?.value ?? 0, family === 4 ? 'ipv4' : 'ipv6');
  }
  return addresses.some(
    (address) => isIP(address) !== 0 && ranges.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6'),
  );
}

function leadsTo({ filters = [] }: FilterChain): Next | undefined {
  for (const { typedConfig } of filters) {
    const [url, value] = [typedConfig?.typeUrl ?? '', typedConfig?.value ?? new Uint8Array()];
    if (url === HttpConnectionManager.getTypeUrl()) {
      const { rds, routeConfig } = HttpConnectionManager.decode(value);
      return { kind: 'http', routeName: rds?.routeConfigName ?? '', inline: routeConfig?.virtualHosts ?? [] };
    }
    if (url === TcpProxy.getTypeUrl()) {
      const { cluster, weightedClusters } = TcpProxy.decode(value);
      return { kind: 'tcp', clusters: weighted(cluster, weightedClusters?.clusters) };
    }
  }
  return undefined;
}

type Weights = readonly {
  readonly name?: string | null;
  readonly weight?: number | google.protobuf.UInt32Value | null;
}[];

export function weighted(cluster: string | null | undefined, several: Weights | null | undefined): Weighted[] {
  if (several == null || several.length === 0) return cluster == null || cluster === '' ? [] : [{ name: cluster }];
  return several.map(({ name, weight }) => {
    return { name: name ?? '', weight: typeof weight === 'object' ? (weight?.value ?? 0) : (weight ?? 0) };
  });
}

/** How closely a domain matches one of the authorities; 0: not. Envoy prefers exact ones, then long suffixes. */
function domainRank(domain: string, authorities: readonly string[]): number {
  const text = domain.toLowerCase();
  if (authorities.includes(text)) return 3000 + text.length;
  if (text === '*') return 1;
  const one = (fits: (authority: string) => boolean): boolean => authorities.some(fits);
  if (text.startsWith('*')) return one((authority) => authority.endsWith(text.slice(1))) ? 2000 + text.length : 0;
  if (text.endsWith('*')) return one((authority) => authority.startsWith(text.slice(0, -1))) ? 1000 + text.length : 0;
  return 0;
}

export function virtualHostFor(hosts: readonly VirtualHost[], { host, port }: Destination): VirtualHost | undefined {
  const authorities = [host, `${host}:${port}`];
  let best: readonly [rank: number, host: VirtualHost | undefined] = [0, undefined];
  for (const one of hosts) {
    const rank = Math.max(0, ...(one.domains ?? []).map((domain) => domainRank(domain, authorities)));
    if (rank > best[0]) best = [rank, one];
  }
  return best[1];
}

/** Whether a virtual host has the domain itself, so that no other one is chosen. */
export function isExactFor(found: VirtualHost | undefined, { host, port }: Destination): boolean {
  return found?.domains?.some((domain) => domain === host || domain === `${host}:${port}`) === true;
}

/** Routes with conditions that the question does not decide, which come before the one that matches. */
const MAX_CONDITIONAL = 20;

export interface RouteFound {
  readonly route: Route | undefined;
  /** Their conditions: `header x-user`, `regex /a.*`. */
  readonly before: readonly { readonly route: Route; readonly conditions: readonly string[] }[];
}

/** Regular expressions are not evaluated: their routes are conditional. */
export function routeFor({ routes = [] }: VirtualHost, path: string): RouteFound {
  const before: { route: Route; conditions: string[] }[] = [];
  for (const route of routes) {
    const { match } = route;
    if (match == null || pathMatches(match, path) === false) continue;
    const conditions = [
      ...(match.safeRegex == null ? [] : [`regex ${match.safeRegex.regex ?? ''}`]),
      ...(match.headers ?? []).map(({ name }) => `header ${name}`),
      ...(match.queryParameters ?? []).map(({ name }) => `query parameter ${name}`),
    ];
    if (conditions.length === 0) return { route, before };
    if (before.length < MAX_CONDITIONAL) before.push({ route, conditions });
  }
  return { route: undefined, before };
}

function pathMatches(match: envoy.config.route.v3.RouteMatch, path: string): boolean | undefined {
  const folds = match.caseSensitive?.value === false;
  const fold = (text: string): string => (folds ? text.toLowerCase() : text);
  const given = fold(path);
  if (match.path != null && match.path !== '') return given === fold(match.path);
  if (match.pathSeparatedPrefix != null && match.pathSeparatedPrefix !== '') {
    const prefix = fold(match.pathSeparatedPrefix);
    return given === prefix || given.startsWith(`${prefix}/`);
  }
  if (match.prefix != null && match.prefix !== '') return given.startsWith(fold(match.prefix));
  return undefined;
}
