/** The state of live views: their units, placements and bundles. */
export { ChangedHosts, type LaterOptions } from './later-clusters.ts';
export { isHeldIn } from './name-patterns.ts';
export type { Bundles, HeldBundles, PlacedView } from './placed-view.ts';
export type { Encoders } from './view-bundles.ts';
export type { BuildFailure } from './view-endpoints.ts';
export type { FirstNames } from './view-jobs.ts';
export { ViewState } from './view-state.ts';
