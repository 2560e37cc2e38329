/** Push: views, bundles, generation in workers, the push queue. */

export { messageOf, TYPE_URLS } from './encode-resource.ts';
export { Engine } from './engine.ts';
export type { EngineObserver, EngineOptions, Publication } from './engine-options.ts';
export { type Generator, InlineGenerator } from './generator.ts';
export { defaultWorkers, PoolGenerator } from './pool-generator.ts';
export type { Session } from './session.ts';
export type { ReadUnits, Reason } from './why.ts';
