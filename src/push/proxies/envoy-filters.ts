/**
 * Determines which patches of EnvoyFilters apply to a part of a proxy's configuration. The conditions are read here, so
 * that they become part of the view; generation reads the content of the patches.
 */
import { type ProxyNode, parseMetadata } from '../../core/proxy.ts';
import {
  type AppliedFilter,
  type EnvoyView,
  PATCH_CONTEXTS,
  PATCHED_TYPES,
  type PatchedType,
} from '../../generate/index.ts';
import { compileRegex } from '../../regex/index.ts';
import {
  type AnyResource,
  type EnvoyConfigPatch,
  keyOf,
  type Resource,
  unappliedPatch,
} from '../../resources/index.ts';

type EnvoyFilter = Resource<'EnvoyFilter'>;

type ApplyTo = EnvoyConfigPatch['applyTo'];

/** The targets to which patches can add separate resources. */
const ADDED_TARGETS: readonly ApplyTo[] = ['CLUSTER', 'LISTENER', 'EXTENSION_CONFIG'];
const ROUTES: readonly ApplyTo[] = ['ROUTE_CONFIGURATION', 'VIRTUAL_HOST', 'HTTP_ROUTE'];

/** The targets of patches that affect the resources of a type; listeners can contain routes. */
const TARGETS: Readonly<Record<PatchedType, readonly ApplyTo[]>> = {
  cds: ['CLUSTER'],
  ecds: ['EXTENSION_CONFIG'],
  lds: ['LISTENER', 'LISTENER_FILTER', 'FILTER_CHAIN', 'NETWORK_FILTER', 'HTTP_FILTER', ...ROUTES],
  rds: ROUTES,
  vhds: ROUTES,
};

/**
 * The patches for a part of a proxy's configuration, in the order in which they apply: the root namespace's first, then
 * those of the proxy's own namespace, in each by priority, the oldest first. Absent if there are none.
 *
 * @param filters the EnvoyFilters for the proxy's workload: those of the root namespace first, in each namespace the
 * oldest first
 */
export function patchesFor(
  filters: readonly EnvoyFilter[],
  node: ProxyNode,
  part: EnvoyView['part'],
): Pick<EnvoyView, 'patches'> {
  if (filters.length === 0) return {};
  const inOrder = ordered(filters);
  const taken = part === 'inbound' ? namesAdded(inOrder, node) : undefined;
  const patches: Record<PatchedType, AppliedFilter[]> = { cds: [], ecds: [], lds: [], rds: [], vhds: [] };
  for (const filter of inOrder) {
    const applied = (filter.content.configPatches ?? []).flatMap((patch, index) => {
      if (!applies(patch, node, part) || taken?.has(additionOf(patch) ?? '')) return [];
      return [{ applyTo: patch.applyTo, index }];
    });
    for (const type of PATCHED_TYPES) {
      const ofType = applied.filter(({ applyTo }) => TARGETS[type].includes(applyTo)).map(({ index }) => index);
      if (ofType.length > 0) patches[type].push({ key: keyOf(filter), patches: ofType });
    }
  }
  const some = PATCHED_TYPES.filter((type) => patches[type].length > 0);
  return some.length === 0 ? {} : { patches: Object.fromEntries(some.map((type) => [type, patches[type]])) };
}

/**
 * The names of resources that patches add to the outbound part of a sidecar. They are not added to the inbound part as
 * well: Envoy rejects a response with a repeated name.
 */
function namesAdded(filters: readonly EnvoyFilter[], node: ProxyNode): ReadonlySet<string> {
  const patches = filters.flatMap(({ content }) => content.configPatches ?? []);
  return new Set(patches.flatMap((patch) => (applies(patch, node, 'outbound') ? (additionOf(patch) ?? []) : [])));
}

/** Target and name of the resource that a patch adds; undefined for other patches. */
function additionOf({ applyTo, patch: { operation, value } }: EnvoyConfigPatch): string | undefined {
  const isAdded = operation === 'ADD' && ADDED_TARGETS.includes(applyTo);
  return isAdded ? `${applyTo} ${String(value?.name)}` : undefined;
}

/** Each namespace's filters by priority; the order is stable. */
function ordered(filters: readonly EnvoyFilter[]): readonly EnvoyFilter[] {
  const byNamespace = Map.groupBy(filters, ({ meta }) => meta.namespace);
  return [...byNamespace.values()].flatMap((own) =>
    own.sort((a, b) => (a.content.priority ?? 0) - (b.content.priority ?? 0)),
  );
}

/** Thousands of patches may read the metadata of the same proxy. */
const metadata = new WeakMap<ProxyNode, ReadonlyMap<string, string>>();

function statedBy(node: ProxyNode): ReadonlyMap<string, string> {
  const known = metadata.get(node) ?? parseMetadata(node.metadata);
  metadata.set(node, known);
  return known;
}

function applies(patch: EnvoyConfigPatch, node: ProxyNode, part: EnvoyView['part']): boolean {
  if (unappliedPatch(patch) !== undefined) return false;
  const { context = 'ANY', proxy } = patch.match ?? {};
  if (context !== 'ANY' && context !== PATCH_CONTEXTS[part]) return false;
  // A sidecar gets one additional listener or cluster, and not two with the same name.
  if (context === 'ANY' && part === 'inbound' && additionOf(patch) !== undefined) return false;
  const { proxyVersion = '', metadata = {} } = proxy ?? {};
  const { meshVersion } = node;
  if (proxyVersion !== '' && (meshVersion === '' || !compileRegex(proxyVersion)(meshVersion))) return false;
  const wanted = Object.entries(metadata);
  if (wanted.length === 0) return true;
  const stated = statedBy(node);
  return wanted.every(([key, value]) => stated.get(key) === value);
}

/** The parts of an EnvoyFilter that decide which views have its patches, as a string; '' for other resources. */
export function placementText(resource: AnyResource | undefined): string {
  if (resource?.kind !== 'EnvoyFilter') return '';
  const { priority, configPatches = [] } = resource.content;
  const patches = configPatches.map((patch) => [
    unappliedPatch(patch) === undefined,
    patch.match?.context,
    patch.match?.proxy?.proxyVersion,
    patch.match?.proxy?.metadata,
    patch.applyTo,
    additionOf(patch),
  ]);
  return JSON.stringify([priority, patches]);
}
