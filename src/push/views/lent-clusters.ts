/** Clusters of units that stay as they are, for placements that do not have them. */
import type { Unit } from '../../generate/index.ts';
import type { Edits } from './job-changes.ts';
import type { PlacedBundles } from './view-bundles.ts';

/** What `lendClusters` reads of placements. */
type PlacedClusters = Pick<PlacedBundles, 'placement' | 'clusters' | 'initialized'>;

/**
 * Gives placements that begin now the clusters of a unit that could not be generated as another placement of the same
 * network and cluster has them. The priorities of endpoints may be those of another locality; without the clusters,
 * routes to the host would lead nowhere.
 */
export function lendClusters(unit: Unit, placements: ReadonlyMap<PlacedClusters, Edits>): void {
  const lenders = [...placements.keys()].filter(({ initialized, clusters }) => initialized && clusters.has(unit));
  for (const [{ initialized, placement }, edits] of placements) {
    if (initialized || edits.has(unit)) continue;
    const { network, cluster } = placement;
    const lender = lenders.find((each) => each.placement.network === network && each.placement.cluster === cluster);
    const clusters = lender?.clusters.get(unit);
    if (clusters !== undefined) edits.set(unit, clusters);
  }
}
