/**
 * The stage after generation: applies patches of EnvoyFilters (networking.mesh.io/v1alpha3) to generated resources,
 * with the meaning of Istio 1.7. A view without patches skips this stage. Source:
 * https://istio.io/v1.7/docs/reference/config/networking/envoy-filter/
 */
import type { MeshReader } from '../reads/index.ts';
import type { GeneratedResource, GeneratedType, UnitOutput, View } from '../types.ts';
import { addedClusters, patchClusters } from './clusters.ts';
import { addedListeners, patchListeners } from './listeners.ts';
import { patchesOf } from './read.ts';
import { patchRouteConfigurations } from './routes.ts';
import { PATCH_CONTEXTS, type PatchLookup } from './types.ts';

export { PATCH_CONTEXTS } from './types.ts';

/** The unit of clusters or listeners that patches add; neither a host name nor a port can equal it. */
export const ADDED_UNIT = '|added';

/** Whether patches add resources of this type, which are a unit of their own. */
export function addsUnit(snapshot: MeshReader, view: View, type: GeneratedType): boolean {
  return view.patches !== undefined && addedBy(patchesOf(snapshot, view), type).length > 0;
}

function addedBy(patches: PatchLookup, type: GeneratedType): readonly GeneratedResource[] {
  const added = type === 'cds' ? addedClusters(patches) : type === 'lds' ? addedListeners(patches) : [];
  // Of several with one name the first counts, as in Istio.
  return [...new Map([...added].reverse().map((resource) => [resource.name, resource])).values()].reverse();
}

/** What patches add of a type. */
export function addedUnit(snapshot: MeshReader, view: View, type: GeneratedType): UnitOutput {
  return { resources: addedBy(patchesOf(snapshot, view), type), findings: [] };
}

/** The output of a unit after the patches of the view. Throws Error with one line for a patch that does not fit. */
export function patched(snapshot: MeshReader, view: View, type: GeneratedType, output: UnitOutput): UnitOutput {
  const patches = patchesOf(snapshot, view);
  const context = PATCH_CONTEXTS[view.part];
  const patch = (resources: readonly GeneratedResource[]): readonly GeneratedResource[] => {
    switch (type) {
      case 'cds':
        return patchClusters(resources, patches);
      case 'lds':
        return patchListeners(resources, patches, context);
      case 'rds':
        return patchRouteConfigurations(resources, patches, context);
      case 'sds':
      case 'vhds':
        return resources;
    }
  };
  return {
    ...output,
    resources: patch(output.resources),
    ...(output.placed !== undefined && { placed: output.placed.map(patch) }),
  };
}
