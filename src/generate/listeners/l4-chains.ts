/**
 * Filter chains of connections that are passed on as bytes: the TCP and TLS routes of virtual services, then the service's own
 * cluster. Chains are made in precedence order; where two match the same connections, the first has them (see
 * `chain-merge.ts`).
 */
import { hostMatches } from '../../model/hosts.ts';
import type { ResolvedVirtualService, Scope, Snapshot } from '../../model/types.ts';
import type { L4Match, RouteDestination } from '../../resources/schemas.ts';
import { clusterName } from '../names.ts';
import { effectivePolicy } from '../traffic-policy.ts';
import type { OutboundView } from '../types.ts';
import type { OutboundListenerPlan, TcpTarget } from './port-plan.ts';
import { isTls } from './protocol-kind.ts';
import { type TcpProxyOptions, tcpProxy, type WeightedTcpCluster } from './tcp-proxy.ts';

/** A filter chain before it is known which of its matches it keeps. Empty lists match everything. */
export interface L4Chain {
  readonly ranges: readonly string[];
  readonly serverNames: readonly string[];
  readonly filters: readonly ReturnType<typeof tcpProxy>[];
  /** Whom it is for, for messages. */
  readonly owner: string;
}

/** What chains are made for: one service at one listener. */
interface Context {
  readonly snapshot: Snapshot;
  readonly view: OutboundView;
  readonly scope: Scope;
  readonly listener: Pick<OutboundListenerPlan, 'port' | 'egress'>;
  readonly target: TcpTarget;
}

/** Gateway name that stands for all sidecars. */
const MESH = 'mesh';

/** The chains of one service at one listener. */
export function l4Chains(context: Context): L4Chain[] {
  const { listener, target } = context;
  const routed = listener.egress.virtualServices.filter(({ hosts }) =>
    hosts.some((host) => hostMatches(host, target.service.hostname)),
  );
  return isTls(target.protocol) ? tlsChains(context, routed) : tcpChains(context, routed);
}

/**
 * TLS that the proxy does not end is routed by server name. A service that has the listener to itself needs no name; where others
 * share it, the service's host name is the only thing to tell it by.
 */
function tlsChains(context: Context, routed: readonly ResolvedVirtualService[]): L4Chain[] {
  const chains: L4Chain[] = [];
  const { target } = context;
  for (const virtualService of routed) {
    for (const { match, route } of virtualService.content.tls ?? []) {
      for (const clause of match ?? []) {
        const names = serverNames(clause.sniHosts);
        if (names === undefined || !matches(context, clause)) continue;
        chains.push(routeChain(context, virtualService, route, rangesOf(context, [clause]), names));
      }
    }
  }
  if (chains.length > 0) return chains;
  const names = target.shared ? serverNames([target.service.hostname]) : [];
  return names === undefined ? [] : serviceChain(context, names);
}

/** The first route that takes every connection ends the list: what stands behind it can never be reached. */
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
  return [...chains, ...serviceChain(context, [])];
}

/** Everything but the destination address, which the filter chain matches. */
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

/** The clauses' own ranges take the place of the service's. */
function rangesOf(context: Context, clauses: readonly L4Match[]): readonly string[] {
  const written = clauses.flatMap(({ destinationSubnets }) => destinationSubnets ?? []);
  return context.listener.port === 0 ? [] : written.length > 0 ? written : ownRange(context);
}

/**
 * Envoy takes exact names and `*.suffix`, in lower case; it refuses listeners with other wildcards. `*` means any name, which is
 * no match at all (an empty list). Undefined when all names are such that nothing can match.
 */
function serverNames(hosts: readonly string[]): readonly string[] | undefined {
  if (hosts.length === 0 || hosts.includes('*')) return [];
  const names = hosts.map((host) => host.toLowerCase()).filter((host) => /^(?:\*\.)?[^*]+$/.test(host));
  return names.length === 0 ? undefined : names;
}

function serviceChain(context: Context, serverNames: readonly string[]): L4Chain[] {
  const { service, port } = context.target;
  if (port === undefined) return [];
  const cluster = clusterName('outbound', port, '', service.hostname);
  const hashSourceIp = hashesSourceIp(context, service.hostname, '', port);
  const options = { statPrefix: cluster, clusters: [{ cluster, weight: 1 }], hashSourceIp };
  return [chainOf(context, options, ownRange(context), serverNames, service.hostname)];
}

function routeChain(
  context: Context,
  { name, namespace }: ResolvedVirtualService,
  route: readonly RouteDestination[] | undefined,
  ranges: readonly string[],
  serverNames: readonly string[],
): L4Chain {
  const clusters: WeightedTcpCluster[] = [];
  let hashSourceIp = false;
  for (const { destination, weight } of route ?? []) {
    const { host, subset = '' } = destination;
    const port = destination.port?.number ?? onlyPort(context, host) ?? context.listener.port;
    clusters.push({ cluster: clusterName('outbound', port, subset, host), weight: weight ?? 0 });
    hashSourceIp ||= hashesSourceIp(context, host, subset, port);
  }
  const statPrefix = clusters.length === 1 ? (clusters[0]?.cluster ?? '') : `${name}.${namespace}`;
  return chainOf(context, { statPrefix, clusters, hashSourceIp }, ranges, serverNames, `${namespace}/${name}`);
}

function chainOf(
  { snapshot, view }: Context,
  options: TcpProxyOptions,
  ranges: readonly string[],
  serverNames: readonly string[],
  owner: string,
): L4Chain {
  return { ranges, serverNames, filters: [tcpProxy(snapshot, view, options)], owner };
}

function onlyPort({ scope }: Context, host: string): number | undefined {
  const ports = scope.services.get(host)?.ports;
  return ports?.length === 1 ? ports[0]?.port : undefined;
}

function hashesSourceIp({ scope }: Context, host: string, subset: string, port: number): boolean {
  return effectivePolicy(scope.destinationRule(host), subset, port).loadBalancer?.consistentHash?.useSourceIp === true;
}
