/** Patches of network filters and, inside HTTP connection managers, of HTTP filters and inline routes. */
import { encode, envoy, packBytes } from '../../protobuf/index.ts';
import { PATCHED_MESSAGES } from '../../resources/index.ts';
import { ROUTER_FILTER } from '../filters/index.ts';
import { placeOfClass } from './filter-classes.ts';
import { mergeValue } from './merge.ts';
import type { PatchKeys } from './patch-index.ts';
import { type ItemPatcher, patchList } from './patch-list.ts';
import type { Patches } from './patches.ts';
import { patchRouteConfiguration } from './routes.ts';
import { labelsOf, misfit, type Patch, type PatchContext } from './types.ts';

const { Filter, ListenerFilter } = envoy.config.listener.v3;
const { HttpConnectionManager, HttpFilter } = envoy.extensions.filters.network.http_connection_manager.v3;
type ListenerFilter = envoy.config.listener.v3.ListenerFilter.Input;
type NetworkFilter = envoy.config.listener.v3.Filter.Input;
type Manager = envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Input;
type ManagerFilter = envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter.Input;

/** Patches for a filter chain; those of network filters and HTTP filters are already selected for it. */
export interface ChainPatches {
  readonly networkFilters: readonly Patch[];
  readonly httpFilters: readonly Patch[];
  readonly patches: Patches;
  readonly context: PatchContext;
}

export function patchNetworkFilters(filters: readonly NetworkFilter[], chain: ChainPatches): readonly NetworkFilter[] {
  return patchList(filters, chain.patches.index(chain.networkFilters, NETWORK_FILTER_KEYS), {
    matches: isFilter,
    namesItem: (patch) => Boolean(WANTED.NETWORK_FILTER(patch)),
    merge: (filter, patch) => mergeFilter('NETWORK_FILTER', filter, Filter.decode(patch.value), patch),
    decode: (value) => Filter.decode(value),
    placeOf: placeOfClass,
    inside: (filter) => patchManager(filter, chain),
  });
}

/**
 * Whether filters of these names are the same. Envoy's older names (`envoy.router`) are those of
 * https://www.envoyproxy.io/docs/envoy/v1.14.0/version_history/current, extension renaming.
 */
function isNamed(name: string | null | undefined, wanted: string | undefined): boolean {
  if (!wanted || name === wanted) return true;
  return /^envoy\.(?!filters\.)/.test(wanted) && olderName(name) === wanted;
}

function olderName(name: string | null | undefined): string {
  return name?.replace(/^envoy\.filters\.(?:(?:http|network)\.|(?=listener\.))/, 'envoy.') ?? '';
}

/** Keys: the name of the filter in the patch's match. */
function filterKeys(
  wanted: (patch: Patch) => string | undefined,
): PatchKeys<{ readonly name?: string | null | undefined }> {
  return { keyOf: (patch) => wanted(patch) ?? '', keysOf: ({ name }) => ['', name ?? '', olderName(name)] };
}

/** The filter that a patch names, by its target. */
const WANTED = {
  LISTENER_FILTER: ({ match }: Patch) => match.listener?.listenerFilter,
  NETWORK_FILTER: ({ match }: Patch) => match.listener?.filterChain?.filter?.name,
  HTTP_FILTER: ({ match }: Patch) => match.listener?.filterChain?.filter?.subFilter?.name,
};
const NETWORK_FILTER_KEYS = filterKeys(WANTED.NETWORK_FILTER);
const HTTP_FILTER_KEYS = filterKeys(WANTED.HTTP_FILTER);
const LISTENER_FILTER_KEYS = filterKeys(WANTED.LISTENER_FILTER);

function isFilter({ name }: NetworkFilter, patch: Patch): boolean {
  return isNamed(name, WANTED.NETWORK_FILTER(patch));
}

/** The listener filters after these patches; the same object if they are unchanged. */
export function patchListenerFilters(
  filters: readonly ListenerFilter[],
  ofFilters: readonly Patch[],
  patches: Patches,
): readonly ListenerFilter[] {
  return patchList(filters, patches.index(ofFilters, LISTENER_FILTER_KEYS), LISTENER_FILTERS);
}

const LISTENER_FILTERS: ItemPatcher<ListenerFilter> = {
  // As in Istio, patches that do not name a listener filter have no effect.
  matches: ({ name }, patch) => Boolean(WANTED.LISTENER_FILTER(patch)) && isNamed(name, WANTED.LISTENER_FILTER(patch)),
  namesItem: (patch) => Boolean(WANTED.LISTENER_FILTER(patch)),
  merge: (filter, patch) => mergeFilter('LISTENER_FILTER', filter, ListenerFilter.decode(patch.value), patch),
  decode: (value) => ListenerFilter.decode(value),
};

/**
 * Merges a filter with a patch of the same type. A patch that does not name a filter applies to filters of its type; a
 * patch that names a filter of another type is an error.
 */
function mergeFilter<F extends ListenerFilter | NetworkFilter | ManagerFilter>(
  target: keyof typeof WANTED,
  filter: F,
  patch: F,
  from: Patch,
): F {
  const [before, change] = [filter.typedConfig?.typeUrl, patch.typedConfig?.typeUrl];
  if (before && change && before !== change) {
    if (WANTED[target](from) === undefined) return filter;
    throw misfit(from.label, `cannot merge ${change} into the filter ${filter.name}, whose type is ${before}`);
  }
  return mergeValue(PATCHED_MESSAGES[target], filter, patch, from);
}

function patchManager(filter: NetworkFilter, { httpFilters, patches, context }: ChainPatches): NetworkFilter {
  const { typedConfig } = filter;
  if (typedConfig?.typeUrl !== HttpConnectionManager.getTypeUrl()) return filter;
  const manager: Manager = HttpConnectionManager.decode(typedConfig.value ?? new Uint8Array());
  const before = manager.httpFilters ?? [];
  const ofManager = httpFilters.filter((patch) => isFilter(filter, patch));
  const after = patchList(before, patches.index(ofManager, HTTP_FILTER_KEYS), HTTP_FILTERS);
  const routeConfig = manager.routeConfig && patchRouteConfiguration(manager.routeConfig, patches, context);
  if (after === before && routeConfig === manager.routeConfig) return filter;
  checkOrder(after, httpFilters);
  const changed: Manager = { ...manager, httpFilters: after, ...(routeConfig && { routeConfig }) };
  return {
    ...filter,
    typedConfig: packBytes(HttpConnectionManager.getTypeUrl(), encode(HttpConnectionManager, changed)),
  };
}

const HTTP_FILTERS: ItemPatcher<ManagerFilter> = {
  matches: ({ name }, patch) => isNamed(name, WANTED.HTTP_FILTER(patch)),
  namesItem: (patch) => Boolean(WANTED.HTTP_FILTER(patch)),
  merge: (filter, patch) => mergeFilter('HTTP_FILTER', filter, HttpFilter.decode(patch.value), patch),
  decode: (value) => HttpFilter.decode(value),
  placeOf: placeOfClass,
};

/** Envoy rejects a listener with a filter after the router. */
function checkOrder(filters: readonly ManagerFilter[], patches: readonly Patch[]): void {
  const router = filters.findIndex(({ name }) => name === ROUTER_FILTER);
  const behind = router < 0 ? undefined : filters[router + 1];
  if (behind === undefined) return;
  const culprits = patches.filter(({ name }) => name === behind.name);
  const labels = labelsOf(culprits.length > 0 ? culprits : patches);
  throw misfit(
    labels,
    `the HTTP filter ${behind.name} is inserted after ${ROUTER_FILTER}, which must be the last filter`,
  );
}
