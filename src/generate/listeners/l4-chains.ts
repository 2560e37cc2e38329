/**
 * Filter chains of TCP connections: the TCP and TLS routes of virtual services, then the service's own cluster. Chains
 * are in order of precedence; if two match the same connections, the first gets them (see `chain-merge.ts`).
 */
import { InternalError } from '../../core/errors.ts';
import { canonicalHost, type ResolvedVirtualService, type Service } from '../../model/index.ts';
import type { L4Match, RouteDestination } from '../../resources/index.ts';
import { clusterName } from '../common/index.ts';
import {
  type DestinationTraits,
  destinationTraits,
  dnsCache,
  isTls,
  type ProxyCapabilities,
  serverNameResolver,
  type Telemetry,
  tcpFilters,
  telemetryOf,
  thriftRateLimit,
  type WeightedTcpCluster,
} from '../filters/index.ts';
import type { OutboundListenerPlan, TcpTarget } from '../listener-plans/index.ts';
import type { ConnectionRoutes, MeshReader, ScopeReader } from '../reads/index.ts';
import type { OutboundView } from '../views.ts';

/** A filter chain before `chain-merge.ts` has removed overlapping matches. Empty lists match everything. */
export interface L4Chain {
  readonly ranges: readonly string[];
  readonly serverNames: readonly string[];
  readonly filters: ReturnType<typeof tcpFilters>;
  /** Its owner, for messages. */
  readonly owner: string;
  /** The service of its connections; undefined if they belong to no service. */
  readonly service: Service | undefined;
  /** Namespaces of the documents from which it is made. */
  readonly writers: readonly string[];
}

interface Context {
  readonly snapshot: MeshReader;
  readonly view: OutboundView;
  readonly scope: ScopeReader;
  readonly listener: Pick<OutboundListenerPlan, 'port' | 'egress'>;
  readonly target: TcpTarget;
}

/** Inputs of every TCP proxy in addition to its destinations. */
type Proxying = ProxyCapabilities & Pick<MeshReader, 'settings'> & { readonly telemetry: Telemetry };

/** Gateway name that means all sidecars. */
const MESH = 'mesh';

export function l4Chains(context: Context): L4Chain[] {
  const { scope, listener, target } = context;
  const routed = connectionsOf(scope, listener).for(target.service.hostname, listener.port);
  return isTls(target.protocol) ? tlsChains(context, routed) : tcpChains(context, routed);
}

/** The virtual services that route the connections of a listener. */
export function connectionsOf(scope: ScopeReader, { egress }: Pick<OutboundListenerPlan, 'egress'>): ConnectionRoutes {
  const listener = scope.egress[egress];
  if (listener === undefined) throw new InternalError('a planned listener has no egress listener');
  return listener.virtualServices.connections;
}

/**
 * TLS that the proxy does not terminate is routed by server name. A service with its own listener needs no server name;
 * at a shared listener, only the server name identifies the service.
 */
function tlsChains(context: Context, routed: readonly ResolvedVirtualService[]): L4Chain[] {
  const chains: L4Chain[] = [];
  for (const virtualService of routed) {
    for (const { match, route } of virtualService.content.tls ?? []) {
      for (const clause of match ?? []) {
        const names = serverNames(clause.sniHosts);
        if (names === undefined || !matches(context, clause)) continue;
        chains.push(routeChain(context, virtualService, route, rangesOf(context, [clause]), names));
      }
    }
  }
  return chains.length > 0 ? chains : ownChains(context);
}

/** The first route that matches every connection ends the list: routes after it can never be reached. */
function tcpChains(context: Context, routed: readonly ResolvedVirtualService[]): L4Chain[] {
  const chains: L4Chain[] = [];
  for (const virtualService of routed) {
    for (const { match, route } of virtualService.content.tcp ?? []) {
      const clauses = (match ?? []).filter((clause) => matches(context, clause));
      if ((match ?? []).length > 0 && clauses.length === 0) continue;
      const all = clauses.length === 0 || clauses.some(({ destinationSubnets }) => !hasItems(destinationSubnets));
      const ranges = all ? ownRange(context) : rangesOf(context, clauses);
      chains.push(routeChain(context, virtualService, route, ranges, []));
      if (all) return chains;
    }
  }
  return [...chains, ...ownChains(context)];
}

/** Whether a clause matches, without the destination address, which the filter chain matches. */
function matches({ view, listener }: Context, clause: L4Match): boolean {
  const { gateways, port, sourceLabels, sourceNamespace } = clause;
  if (hasItems(gateways) && !gateways.includes(MESH)) return false;
  if (port !== undefined && listener.port !== 0 && port !== listener.port) return false;
  if (sourceNamespace !== undefined && sourceNamespace !== '' && sourceNamespace !== view.namespace) return false;
  return Object.entries(sourceLabels ?? {}).every(([key, value]) => view.sourceLabels[key] === value);
}

function hasItems<T>(list: readonly T[] | undefined): list is readonly T[] {
  return list !== undefined && list.length > 0;
}

function ownRange({ target }: Context): readonly string[] {
  return target.range === undefined ? [] : [target.range];
}

/** The match's own ranges replace the service's. */
function rangesOf(context: Context, clauses: readonly L4Match[]): readonly string[] {
  const written = clauses.flatMap(({ destinationSubnets }) => destinationSubnets ?? []);
  return context.listener.port === 0 ? [] : written.length > 0 ? written : ownRange(context);
}

/**
 * Envoy accepts exact names and `*.suffix`, in lower case; it refuses listeners with other wildcards. `*` means any
 * name, which is an empty match list. Undefined when none of the names can match.
 */
function serverNames(hosts: readonly string[]): readonly string[] | undefined {
  if (hosts.length === 0 || hosts.includes('*')) return [];
  // Clients send names without the dot at the end (RFC 6066, section 3).
  const names = [...new Set(hosts.map(canonicalHost))].filter((host) => /^(?:\*\.)?[^*]+$/.test(host));
  return names.length === 0 ? undefined : names;
}

function ownChains({ snapshot, view, scope, listener, target }: Context): L4Chain[] {
  const { capabilities } = view;
  const traits = destinationTraits(scope, target.service.hostname, '', target.port ?? 0, {
    at: listener.port,
    sds: capabilities.sds,
  });
  const { mesh, settings } = snapshot;
  return serviceChains({ mesh, capabilities, settings, telemetry: telemetryOf(snapshot, view) }, target, traits);
}

/** The chains to the service's own cluster. */
export function serviceChains(
  proxying: Proxying & Pick<MeshReader, 'mesh'>,
  target: TcpTarget,
  traits: DestinationTraits,
): L4Chain[] {
  const { service, port, range, shared, resolves } = target;
  if (port === undefined) return [];
  const byName = isTls(target.protocol) && (shared || resolves !== undefined);
  const names = byName ? serverNames([service.hostname]) : [];
  if (names === undefined) return [];
  const cluster = clusterName('outbound', port, '', service.hostname);
  const { protocol } = target;
  const rateLimit = thriftRateLimit(proxying.mesh, protocol, service.hostname);
  const forwarded = { protocol, settings: proxying.settings, rateLimit };
  const clusters = [{ cluster, weight: 1 }];
  const options = { statPrefix: cluster, clusters, destinations: [traits], port: forwarded };
  const match = { ranges: range === undefined ? [] : [range], serverNames: names };
  // Connections to a headless service keep their original destination.
  const writers = service.headless ? [] : [service.namespace];
  const cache = resolves && dnsCache(cluster, resolves, proxying.mesh.dnsRefreshRate);
  const filters = [
    ...(cache === undefined ? [] : serverNameResolver(proxying, port, cache)),
    ...tcpFilters(proxying.telemetry, proxying, options),
  ];
  return [{ ...match, filters, owner: service.hostname, service, writers }];
}

function routeChain(
  context: Context,
  { name, namespace }: ResolvedVirtualService,
  route: readonly RouteDestination[] | undefined,
  ranges: readonly string[],
  serverNames: readonly string[],
): L4Chain {
  const clusters: WeightedTcpCluster[] = [];
  const destinations: DestinationTraits[] = [];
  for (const { destination, weight } of route ?? []) {
    const { host, subset = '' } = destination;
    const port = destination.port?.number ?? onlyPort(context, host) ?? context.listener.port;
    clusters.push({ cluster: clusterName('outbound', port, subset, host), weight: weight ?? 0 });
    destinations.push(
      destinationTraits(context.scope, host, subset, port, {
        at: context.listener.port,
        sds: context.view.capabilities.sds,
      }),
    );
  }
  const statPrefix = clusters.length === 1 ? (clusters[0]?.cluster ?? '') : `${name}.${namespace}`;
  const { snapshot, view } = context;
  const { service, protocol } = context.target;
  const { mesh, settings } = snapshot;
  const port = { protocol, settings, rateLimit: thriftRateLimit(mesh, protocol, service.hostname) };
  const filters = tcpFilters(telemetryOf(snapshot, view), view, { statPrefix, clusters, destinations, port });
  const writers = [namespace, service.namespace];
  return { ranges, serverNames, filters, owner: `${namespace}/${name}`, service, writers };
}

function onlyPort({ scope }: Context, host: string): number | undefined {
  const ports = scope.services.get(host)?.ports;
  return ports?.length === 1 ? ports[0]?.port : undefined;
}
