/**
 * Which patches of EnvoyFilters apply to a part of a proxy's configuration. What decides that is read here, so that it
 * becomes part of the view; what the patches say is read by generation.
 */
import type { ProxyNode } from '../../core/proxy.ts';
import { type AppliedFilter, PATCH_CONTEXTS, type View } from '../../generate/index.ts';
import {
  type AnyResource,
  type EnvoyConfigPatch,
  keyOf,
  matchesRegex,
  type Resource,
  unappliedPatch,
} from '../../resources/index.ts';

type EnvoyFilter = Resource<'EnvoyFilter'>;

/** The patches that apply to a part. */
export interface PartPatches {
  /** As the view has them: absent where there are none. */
  readonly view: Pick<View, 'patches'>;
  /** Whether some of them patch virtual hosts or what they are in. */
  readonly ofRoutes: boolean;
}

const ROUTES: ReadonlySet<EnvoyConfigPatch['applyTo']> = new Set(['ROUTE_CONFIGURATION', 'VIRTUAL_HOST', 'HTTP_ROUTE']);

/**
 * The patches for a part of a proxy's configuration, in the order in which they apply: the root namespace's first, then
 * the own one's, in each by priority, the oldest first.
 *
 * @param filters those for the proxy's workload, the root namespace's first, in each namespace the oldest first
 */
export function patchesFor(filters: readonly EnvoyFilter[], node: ProxyNode, part: View['part']): PartPatches {
  let ofRoutes = false;
  const applied = ordered(filters).flatMap((filter): AppliedFilter[] => {
    const patches = (filter.content.configPatches ?? []).flatMap((patch, index) => {
      if (!applies(patch, node, part)) return [];
      ofRoutes ||= ROUTES.has(patch.applyTo);
      return [index];
    });
    return patches.length === 0 ? [] : [{ key: keyOf(filter), patches }];
  });
  return { view: applied.length === 0 ? {} : { patches: applied }, ofRoutes };
}

/** Each namespace's filters by priority; the order is stable. */
function ordered(filters: readonly EnvoyFilter[]): readonly EnvoyFilter[] {
  const byNamespace = Map.groupBy(filters, ({ meta }) => meta.namespace);
  return [...byNamespace.values()].flatMap((own) =>
    own.sort((a, b) => (a.content.priority ?? 0) - (b.content.priority ?? 0)),
  );
}

function applies(patch: EnvoyConfigPatch, { meshVersion }: ProxyNode, part: View['part']): boolean {
  if (unappliedPatch(patch) !== undefined) return false;
  const { context = 'ANY', proxy } = patch.match ?? {};
  if (context !== 'ANY' && context !== PATCH_CONTEXTS[part]) return false;
  // One listener or cluster more for a sidecar, not two of one name.
  const isAdded = patch.patch.operation === 'ADD' && (patch.applyTo === 'LISTENER' || patch.applyTo === 'CLUSTER');
  if (isAdded && context === 'ANY' && part === 'inbound') return false;
  const { proxyVersion = '' } = proxy ?? {};
  return proxyVersion === '' || (meshVersion !== '' && matchesRegex(proxyVersion, meshVersion));
}

/** What of an EnvoyFilter decides which views have its patches, as text; '' for what is none. */
export function placementText(resource: AnyResource | undefined): string {
  if (resource?.kind !== 'EnvoyFilter') return '';
  const { priority, configPatches = [] } = resource.content;
  const patches = configPatches.map((patch) => [
    unappliedPatch(patch) === undefined,
    patch.match?.context,
    patch.match?.proxy?.proxyVersion,
    patch.applyTo,
    patch.patch.operation === 'ADD',
  ]);
  return JSON.stringify([priority, patches]);
}
