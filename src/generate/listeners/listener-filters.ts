/** Listener filters: they inspect a connection before a filter chain is chosen for it. */
import { envoy } from '../../protobuf/index.ts';
import { toDuration } from '../common/index.ts';
import {
  type FilterChain,
  HTTP_INSPECTOR,
  hasExtension,
  ORIGINAL_DST_FILTER,
  type ProxyCapabilities,
  TLS_INSPECTOR,
  typedConfig,
} from '../filters/index.ts';

type Listener = envoy.config.listener.v3.Listener.Input;
type ListenerFilter = envoy.config.listener.v3.ListenerFilter.Input;
type Predicate = envoy.config.listener.v3.ListenerFilterChainMatchPredicate.Input;

const filters = envoy.extensions.filters.listener;

/** Finds the original destination of a redirected connection. */
export function originalDestination(view: ProxyCapabilities): ListenerFilter[] {
  return hasExtension(view, ORIGINAL_DST_FILTER)
    ? [typedConfig(ORIGINAL_DST_FILTER, filters.original_dst.v3.OriginalDst, {})]
    : [];
}

/**
 * The ports whose connections are inspected: all when absent. Others are not inspected, because clients may be waiting
 * for the server to speak first.
 */
export type InspectedPorts = { readonly only: readonly number[] } | { readonly except: readonly number[] };

/** Reads TLS server and protocol names. It comes before the HTTP inspector, which then ignores TLS connections. */
export function tlsInspector(view: ProxyCapabilities, ports?: InspectedPorts): ListenerFilter[] {
  if (!hasExtension(view, TLS_INSPECTOR)) return [];
  return [{ ...typedConfig(TLS_INSPECTOR, filters.tls_inspector.v3.TlsInspector, {}), ...disabledFor(ports) }];
}

/** Distinguishes HTTP/1 and HTTP/2 with prior knowledge from everything else. */
export function httpInspector(view: ProxyCapabilities, ports?: InspectedPorts): ListenerFilter[] {
  if (!hasExtension(view, HTTP_INSPECTOR)) return [];
  return [{ ...typedConfig(HTTP_INSPECTOR, filters.http_inspector.v3.HttpInspector, {}), ...disabledFor(ports) }];
}

/** How long to wait for the first bytes (milliseconds; 0: no limit), after which the connection counts as TCP. */
export function detectionTimeout(
  milliseconds: number,
): Pick<Listener, 'listenerFiltersTimeout' | 'continueOnListenerFiltersTimeout'> {
  return { listenerFiltersTimeout: toDuration(milliseconds), continueOnListenerFiltersTimeout: true };
}

/**
 * Filter chain match of detected HTTP: the protocol names of the HTTP inspector. Only outside TLS, where clients
 * negotiate protocols by the same names.
 */
export const SNIFFED_HTTP = {
  transportProtocol: 'raw_buffer',
  applicationProtocols: ['http/1.0', 'http/1.1', 'h2c'],
} as const;

/**
 * A TCP chain in addition to one of {@link SNIFFED_HTTP}. Envoy matches the transport before the protocol and does not
 * backtrack: if a chain matches plain-text connections, a chain without a transport only gets TLS. So there is a chain
 * for each transport. (A server name implies TLS.)
 */
export function besideSniffedHttp(chain: FilterChain): FilterChain[] {
  const match = chain.filterChainMatch ?? undefined;
  if (match?.serverNames !== undefined && match.serverNames !== null && match.serverNames.length > 0) return [chain];
  const { transportProtocol } = SNIFFED_HTTP;
  return [{ ...chain, filterChainMatch: { ...match, transportProtocol } }, chain];
}

function disabledFor(ports: InspectedPorts | undefined): Pick<ListenerFilter, 'filterDisabled'> {
  if (ports === undefined) return {};
  if ('only' in ports) return { filterDisabled: { notMatch: anyOf(ports.only.map(portPredicate)) } };
  return ports.except.length === 0 ? {} : { filterDisabled: anyOf(ports.except.map(portPredicate)) };
}

function portPredicate(port: number): Predicate {
  return { destinationPortRange: { start: port, end: port + 1 } };
}

/** Envoy requires at least two members in an `orMatch`. */
function anyOf(predicates: readonly Predicate[]): Predicate {
  const [first] = predicates;
  return predicates.length === 1 && first !== undefined ? first : { orMatch: { rules: predicates } };
}
