/** The push engine: takes snapshots, has views generated and notifies sessions. */

export { Engine } from './engine.ts';
export type { EngineObserver, EngineOptions } from './engine-options.ts';
export type { TouchedPart, TouchedPlacement } from './touched.ts';
export type { ReadUnits, Reason } from './why.ts';
