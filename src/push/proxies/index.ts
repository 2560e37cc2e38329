/** From a proxy to its views and its placement, and which changes may give it others. */
export {
  changedProxyFacts,
  isReadPerReplica,
  type LabelledWorkload,
  workloadText,
} from './proxy-mesh.ts';
export { placementKey, placementOf, scopeOfKey, viewKey, viewsOf } from './proxy-views.ts';
export { placedViewKey, registeredViews } from './registered-views.ts';
