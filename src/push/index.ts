/** Push: views, bundles, generation in workers, the push queue. */
export { resourceMessage } from './bundles/index.ts';
export type { EngineObserver, ReadUnits, Reason } from './engine/index.ts';
export { Engine } from './engine/index.ts';
export { defaultWorkers, type Generator, InlineGenerator, PoolGenerator } from './jobs/index.ts';
export type { Push, PushReason } from './push.ts';
export type { Session } from './sessions/index.ts';
export type {
  Bundle,
  ConnectionStatus,
  EncodedResource,
  FailingView,
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
