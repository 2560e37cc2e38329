/** Previews: what a change would do to the resources of proxies, found in the generation workers. */
export { type PreviewedMeshes, previewInSlices } from './compare.ts';
export { ResourceChanges } from './resource-changes.ts';
export type {
  ChangedResource,
  FieldChange,
  PreviewedView,
  PreviewResult,
  PreviewTask,
  ViewOutcome,
} from './types.ts';
