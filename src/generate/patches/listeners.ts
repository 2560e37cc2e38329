/** Patches of listeners, their filter chains and filters. */
import { encode, envoy } from '../../protobuf/index.ts';
import { PATCHED_MESSAGES } from '../../resources/index.ts';
import { VIRTUAL_INBOUND_LISTENER, VIRTUAL_OUTBOUND_LISTENER } from '../common/index.ts';
import type { GeneratedResource } from '../types.ts';
import { isElsewhere } from './config-source.ts';
import { patchListenerFilters, patchNetworkFilters } from './filters.ts';
import { mergeValue } from './merge.ts';
import { combination, combinations, type PatchIndex, type PatchKeys } from './patch-index.ts';
import { patchList } from './patch-list.ts';
import type { Patches } from './patches.ts';
import type { IsNamedPort } from './port-names.ts';
import { type ApplyTo, labelsOf, misfit, type Patch, type PatchContext } from './types.ts';

const { FilterChain, Listener } = envoy.config.listener.v3;
const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
type FilterChain = envoy.config.listener.v3.FilterChain.Input;
type Listener = envoy.config.listener.v3.Listener.Input;

type RouteNames = () => readonly string[];

const OF_LISTENERS = ['LISTENER', 'LISTENER_FILTER', 'FILTER_CHAIN', 'NETWORK_FILTER'] as const;

/** The properties of a view that matches and references read. */
export interface ListenerLookups {
  readonly context: PatchContext;
  /** The route configurations that the view has. */
  readonly routes: RouteNames;
  readonly isNamedPort: IsNamedPort;
}

/** The listeners after the patches; unchanged listeners are the same objects. */
export function patchListeners(
  listeners: readonly GeneratedResource[],
  patches: Patches,
  lookups: ListenerLookups,
): readonly GeneratedResource[] {
  const ofListeners = patches.indexOf('LISTENER', LISTENER_KEYS);
  return listeners.flatMap((resource): readonly GeneratedResource[] => {
    const before: Listener = Listener.decode(resource.bytes);
    const merged = patchListener(before, ofListeners, lookups);
    if (merged === undefined) return [];
    const after = patchInside(merged, patches, lookups);
    if (after === before) return [resource];
    return [
      listenerResource(
        after,
        resource.refs,
        OF_LISTENERS.flatMap((target) => patches.of(target)),
        lookups.routes,
      ),
    ];
  });
}

/**
 * The listener that a patch adds.
 * @param reserved ports that it must not have
 */
export function addedListener(patch: Patch, routes: RouteNames, reserved: readonly number[]): GeneratedResource {
  const listener: Listener = Listener.decode(patch.value);
  const port = listener.address?.socketAddress?.portValue ?? 0;
  if (reserved.includes(port)) {
    throw misfit(patch.label, `the listener ${patch.name} would take port ${port}, which is reserved for redirection`);
  }
  return listenerResource(listener, [], [patch], routes);
}

/** Undefined: removed. */
function patchListener(
  listener: Listener,
  patches: PatchIndex<Listener>,
  lookups: ListenerLookups,
): Listener | undefined {
  return patches.reduce(listener, (patched, { label, operation, match, value }) => {
    if (operation === 'ADD' || !isListener(patched, match.listener, false, lookups)) return patched;
    if (operation === 'REMOVE') return undefined;
    const patch: Listener = Listener.decode(value);
    if (patch.name && patch.name !== listener.name) {
      throw misfit(label, `a patch cannot rename the listener ${listener.name}`);
    }
    return mergeValue(PATCHED_MESSAGES.LISTENER, patched, patch, { operation });
  });
}

/** Keys: the name and port of the listener in the patch's match. */
const LISTENER_KEYS: PatchKeys<Listener> = {
  keyOf: ({ match: { listener = {} } }) => combination(listener.name, listener.portNumber),
  keysOf: ({ name, address }) => combinations(name ?? '', String(address?.socketAddress?.portValue ?? '')),
};

/** The same for patches of something inside of a listener: see {@link isListener}. */
const INSIDE_KEYS: PatchKeys<Listener> = {
  ...LISTENER_KEYS,
  keysOf: (listener) => (isVirtual(listener) ? undefined : LISTENER_KEYS.keysOf(listener)),
};

/** Keys: the port and the name of the filter chain in the patch's match. */
const CHAIN_KEYS: PatchKeys<FilterChain> = {
  keyOf: ({ match: { listener = {} } }) =>
    combination(listener.filterChain?.destinationPort, listener.filterChain?.name),
  keysOf: ({ name, filterChainMatch }) =>
    combinations(String(filterChainMatch?.destinationPort?.value ?? ''), name ?? ''),
};

type ListenerMatch = Patch['match']['listener'];

/**
 * @param inside whether something inside the listener is patched: then the chains of the virtual listeners, which take
 *   connections to all ports, are matched by their own port
 */
function isListener(
  listener: Listener,
  match: ListenerMatch,
  inside: boolean,
  { isNamedPort }: ListenerLookups,
): boolean {
  if (isUdp(listener) && !match?.name && match?.portNumber === undefined && !match?.portName) return false;
  if (match?.name && match.name !== listener.name) return false;
  if (inside && isVirtual(listener)) return true;
  return isPort(listener.address?.socketAddress?.portValue, match, isNamedPort);
}

function isPort(port: number | null | undefined, match: ListenerMatch, isNamedPort: IsNamedPort): boolean {
  if (match?.portNumber !== undefined && match.portNumber !== port) return false;
  return !match?.portName || isNamedPort(port ?? 0, match.portName);
}

/** Patches for all listeners are about connections: a listener of UDP has none. */
function isUdp({ address }: Listener): boolean {
  return address?.socketAddress?.protocol === envoy.config.core.v3.SocketAddress.Protocol.UDP;
}

function isVirtual({ name }: Listener): boolean {
  return name === VIRTUAL_INBOUND_LISTENER || name === VIRTUAL_OUTBOUND_LISTENER;
}

function isChain(
  listener: Listener,
  { name, filterChainMatch }: FilterChain,
  match: ListenerMatch,
  isNamedPort: IsNamedPort,
): boolean {
  const port = filterChainMatch?.destinationPort?.value;
  if (isVirtual(listener) && !isPort(port, match, isNamedPort)) return false;
  const chain = match?.filterChain;
  if (chain === undefined) return true;
  if (chain.name && chain.name !== name) return false;
  if (chain.sni && filterChainMatch?.serverNames?.includes(chain.sni) !== true) return false;
  if (chain.transportProtocol && filterChainMatch?.transportProtocol !== chain.transportProtocol) return false;
  if (chain.destinationPort !== undefined && chain.destinationPort !== port) return false;
  const protocols = chain.applicationProtocols?.split(',') ?? [];
  return protocols.every((each) => filterChainMatch?.applicationProtocols?.includes(each.trim()) === true);
}

/** The listener with its listener filters and filter chains after the patches. */
function patchInside(listener: Listener, patches: Patches, lookups: ListenerLookups): Listener {
  const inListener = (target: ApplyTo) =>
    patches
      .indexOf(target, INSIDE_KEYS)
      .for(listener)
      .filter(({ match }) => isListener(listener, match.listener, true, lookups));
  const before = listener.listenerFilters ?? [];
  const listenerFilters = patchListenerFilters(before, inListener('LISTENER_FILTER'), patches);
  const changed = listenerFilters === before ? listener : { ...listener, listenerFilters };
  return patchChains(changed, inListener, patches, lookups);
}

function patchChains(
  listener: Listener,
  inListener: (target: ApplyTo) => readonly Patch[],
  patches: Patches,
  { context, isNamedPort }: ListenerLookups,
): Listener {
  const [ofChains, ofFilters, ofHttp] = [
    inListener('FILTER_CHAIN'),
    inListener('NETWORK_FILTER'),
    inListener('HTTP_FILTER'),
  ];
  const inside = (chain: FilterChain): FilterChain => {
    const inChain = (list: readonly Patch[]) =>
      list.filter(({ match }) => isChain(listener, chain, match.listener, isNamedPort));
    const before = chain.filters ?? [];
    const inherited = { networkFilters: inChain(ofFilters), httpFilters: inChain(ofHttp), patches, context };
    const filters = patchNetworkFilters(before, inherited);
    return filters === before ? chain : { ...chain, filters };
  };
  const patcher = {
    matches: (chain: FilterChain, { match }: Patch) => isChain(listener, chain, match.listener, isNamedPort),
    namesItem: () => false,
    merge: (chain: FilterChain, patch: Patch) =>
      mergeValue<FilterChain>(PATCHED_MESSAGES.FILTER_CHAIN, chain, FilterChain.decode(patch.value), patch),
    decode: (value: Uint8Array): FilterChain => FilterChain.decode(value),
    inside,
  };
  const before = listener.filterChains ?? [];
  const filterChains = patchList(before, patches.index(ofChains, CHAIN_KEYS), patcher);
  const changes = ofChains.filter(({ operation }) => operation !== 'ADD');
  const fallback = listener.defaultFilterChain;
  const [defaultFilterChain] = fallback ? patchList([fallback], patches.index(changes, CHAIN_KEYS), patcher) : [];
  if (filterChains === before && defaultFilterChain === (fallback ?? undefined)) return listener;
  return { ...listener, filterChains, defaultFilterChain: defaultFilterChain ?? null };
}

/**
 * @param known route configurations that the listener requested before the patches
 * @param patches for messages
 */
function listenerResource(
  listener: Listener,
  known: readonly string[],
  patches: readonly Patch[],
  routes: RouteNames,
): GeneratedResource {
  const name = listener.name ?? '';
  const refs = routesOf(listener);
  const added = refs.filter((ref) => !known.includes(ref));
  if (added.length > 0) {
    const provided = new Set(routes());
    const missing = added.find((ref) => !provided.has(ref));
    if (missing !== undefined) {
      const text = `the listener ${name} would refer to routes ${missing}, which do not exist`;
      throw misfit(labelsOf(patches), text);
    }
  }
  return { name, bytes: encode(Listener, listener), refs };
}

function routesOf({ filterChains, defaultFilterChain }: Listener): readonly string[] {
  const chains = [...(filterChains ?? []), ...(defaultFilterChain ? [defaultFilterChain] : [])];
  const names = chains
    .flatMap(({ filters }) => filters ?? [])
    .flatMap(({ typedConfig }) => {
      if (typedConfig?.typeUrl !== HttpConnectionManager.getTypeUrl()) return [];
      const { rds } = HttpConnectionManager.decode(typedConfig.value ?? new Uint8Array());
      return isElsewhere(rds?.configSource) ? [] : (rds?.routeConfigName ?? []);
    });
  return [...new Set(names)];
}
