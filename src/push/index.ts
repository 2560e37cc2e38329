/** Push: views, bundles, generation in workers, the push queue. */

export {
  bundleAfter,
  contentVersion,
  emptyBundle,
  encodeResource,
  nextBundle,
  resourceMessage,
} from './bundles/index.ts';
export type { DemandStatus } from './demand-status.ts';
export { type ContentHolder, EarlierContents } from './earlier/index.ts';
export type { EngineObserver, ReadUnits, Reason, TouchedPart, TouchedPlacement } from './engine/index.ts';
export { Engine } from './engine/index.ts';
export {
  defaultWorkers,
  type Generator,
  InlineGenerator,
  PoolGenerator,
  type Previewer,
  type PreviewSource,
} from './jobs/index.ts';
export {
  type ChangedResource,
  type FieldChange,
  type PreviewedView,
  type PreviewResult,
  ResourceChanges,
  type ViewOutcome,
} from './previews/index.ts';
export {
  type ChosenConfiguration,
  configurationOf,
  hasClusterPatches,
  scopeOfKey,
  type WholeBecause,
} from './proxies/index.ts';
export type { Push, PushReason } from './push.ts';
export type { Session } from './sessions/index.ts';
export type {
  Bundle,
  BundleDiff,
  ConcernedNames,
  ConnectionStatus,
  EncodedResource,
  FailingView,
  LaterClusters,
  LaterHosts,
  LeadsTo,
  Names,
  Parts,
  ProxySession,
  PushEngine,
  PushOutcome,
  PushSink,
  ResourceAnswer,
  TypeStatus,
  WithheldOfView,
  WithheldResource,
} from './types.ts';
export { isHeldIn } from './views/index.ts';
