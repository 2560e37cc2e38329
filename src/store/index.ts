/** Door of the store room. */
export { createDebouncer, type DebounceHooks, type Debouncer } from './debounce.ts';
export { type LastGoodStore, openLastGood } from './last-good.ts';
export { type HeldDocument, SecurityHold } from './security-hold.ts';
export type { SourceDocument, ToldEvent } from './source-documents.ts';
export { type AppliedSummary, createStore, type Store, type TakenChanges } from './store.ts';
