/** Builds outbound listeners from their chains. */
import { envoy } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import { cidrRanges, listenerName } from '../common/index.ts';
import {
  type FilterChain,
  portOfRequests,
  sniffs,
  type Telemetry,
  type UnknownTraffic,
  unknownFilters,
} from '../filters/index.ts';
import type { HttpTarget, OutboundListenerPlan } from '../listener-plans/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { GeneratedResource } from '../types.ts';
import type { Capabilities } from '../views.ts';
import type { MergedChains } from './chain-merge.ts';
import { outboundConnectionManager } from './http-connection-manager.ts';
import { besideSniffedHttp, detectionTimeout, httpInspector, SNIFFED_HTTP, tlsInspector } from './listener-filters.ts';
import { listenerAddresses, listenerResource, type NamedListener } from './listener-resource.ts';

const { OUTBOUND } = envoy.config.core.v3.TrafficDirection;
/**
 * Clients of HTTP services, such as connection pools, may connect long before their first request. Silence does not
 * imply another protocol: a request that is treated as TCP would bypass routes, client-side policies and mutual TLS.
 */
const NO_TIMEOUT = 0;

export interface BuiltListener {
  /** Absent when there is no destination. */
  readonly resource: GeneratedResource | undefined;
  readonly conflicts: readonly string[];
}

/** The inputs of the parts of a listener that do not depend on one service. */
export interface Surroundings {
  readonly mesh: MeshConfig;
  readonly settings: MeshReader['settings'];
  readonly capabilities: Capabilities;
  readonly telemetry: Telemetry;
  readonly unknown: UnknownTraffic;
}

/** The properties of a listener that do not depend on its position in a scope. */
export type ListenerShape = Omit<OutboundListenerPlan, 'egress'>;

/** The ranges of services whose protocol is detected. */
export function detectedRanges({ tcp }: Pick<OutboundListenerPlan, 'tcp'>): readonly string[] {
  return tcp.flatMap(({ protocol, range }) => (protocol === 'Unsupported' && range !== undefined ? [range] : []));
}

/**
 * @param httpRanges in which HTTP is detected, in addition to all other destinations
 */
export function assembled(
  surroundings: Surroundings,
  shape: ListenerShape,
  { chains, conflicts, takesAll, matchesServerNames }: MergedChains,
  httpRanges: readonly string[],
): BuiltListener {
  const { bind, extraBind, port, bindToPort, http, undeclared } = shape;
  if (http === undefined && chains.length === 0) return { resource: undefined, conflicts };
  // If all services are HTTP, other traffic belongs to none of them. A bound socket has no original destination to
  // which it could be passed.
  const httpAlone = http !== undefined && chains.length === 0;
  const sniffed =
    http !== undefined && (!httpAlone || (!bindToPort && sniffs(surroundings.settings, 'sniffOutbound', surroundings)));
  const filterChains: FilterChain[] = sniffed ? chains.flatMap(besideSniffedHttp) : [...chains];
  if (http !== undefined) filterChains.push(...httpChains(surroundings, shape, http, sniffed ? httpRanges : undefined));
  const matchesAll = takesAll || (http !== undefined && !sniffed);
  const inspected = sniffed || matchesServerNames;
  const unknown = () => ({ filters: unknownFilters(surroundings.telemetry, surroundings, surroundings.unknown) });
  const listener: NamedListener = {
    name: listenerName(bind, port),
    ...listenerAddresses({ bind, extraBind }, port),
    trafficDirection: OUTBOUND,
    filterChains,
    // Not for a bound socket, which is itself the destination of its connections.
    ...(!matchesAll && !bindToPort && { defaultFilterChain: unknown() }),
    ...(!bindToPort && { bindToPort: { value: false } }),
    ...(inspected && {
      listenerFilters: [...tlsInspector(surroundings), ...(sniffed ? httpInspector(surroundings) : [])],
      ...detectionTimeout(httpAlone && !undeclared ? NO_TIMEOUT : surroundings.mesh.protocolDetectionTimeout),
    }),
  };
  return { resource: listenerResource(listener, http === undefined ? [] : [http.routeName]), conflicts };
}

/**
 * @param detectedIn the ranges in which HTTP is detected, in addition to all other destinations; undefined: all
 * connections are HTTP
 */
function httpChains(
  surroundings: Surroundings,
  { bind, port }: ListenerShape,
  { routeName, grpcWeb, dynamicPort }: HttpTarget,
  detectedIn: readonly string[] | undefined,
): FilterChain[] {
  const manager = outboundConnectionManager(surroundings, {
    statPrefix: `outbound_${listenerName(bind, port)}`,
    routes: { rds: routeName },
    // Disabled: Envoy trusts the application in the same Pod, which may set timeouts and retries by headers.
    useRemoteAddress: surroundings.settings.sidecarUseRemoteAddress,
    grpcWeb,
  });
  const filters = [...portOfRequests(surroundings, dynamicPort), manager];
  if (detectedIn === undefined) return [{ filters }];
  const chain: FilterChain = { filterChainMatch: SNIFFED_HTTP, filters };
  // Envoy matches the destination first and does not backtrack: ranges with their own chains need a chain for HTTP,
  // too.
  const prefixRanges = cidrRanges(detectedIn);
  return prefixRanges.length === 0
    ? [chain]
    : [chain, { filterChainMatch: { ...SNIFFED_HTTP, prefixRanges }, filters }];
}
