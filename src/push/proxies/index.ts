/** Determines the views and the placement of a proxy, and which changes may affect them. */
export { withCurrentLabels } from './current-labels.ts';
export {
  changedProxyFacts,
  isReadPerReplica,
  type LabelledWorkload,
  workloadText,
} from './proxy-mesh.ts';
export { hasClusterPatches, placementKey, placementOf, scopeOfKey, viewKey, viewsOf } from './proxy-views.ts';
export { placedViewKey, registeredViews } from './registered-views.ts';
export { type ChosenConfiguration, configurationOf, type WholeBecause } from './sidecar-configuration.ts';
