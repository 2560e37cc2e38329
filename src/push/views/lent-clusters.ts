/** Clusters of units that keep their state, for placements that do not have them. */
import type { Unit } from '../../generate/index.ts';
import type { Edits } from './job-changes.ts';
import type { PlacedBundles } from './view-bundles.ts';

/** The properties of placements that `lendClusters` reads. */
type PlacedClusters = Pick<PlacedBundles, 'placement' | 'clusters' | 'initialized'>;

/**
 * If a unit could not be generated, gives new placements the clusters that another placement with the same network and
 * cluster has. The priorities of endpoints may be those of another locality, but without the clusters, routes to the
 * host would fail.
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
