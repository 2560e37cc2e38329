/** The push engine: takes snapshots, has views generated and notifies sessions. */
export { Engine } from './engine.ts';
export type { EngineObserver, EngineOptions, Publication } from './engine-options.ts';
export type { ReadUnits, Reason } from './why.ts';
