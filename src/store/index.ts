/** Door of the store room. */
export { createDebouncer, type DebounceHooks, type DebounceOptions, type Debouncer } from './debounce.ts';
export { type LastGoodStore, openLastGood } from './last-good.ts';
export { type HeldDocument, type InForce, SecurityHold } from './security-hold.ts';
export type { SourceDocument, ToldEvent } from './source-documents.ts';
export { type AppliedSummary, createStore, type Store, type StoreOptions, type TakenChanges } from './store.ts';
