/** The store: typed documents of all sources, their last good versions, and the debounce of changes. */
export { createDebouncer, type DebounceHooks, type Debouncer } from './debounce/debounce.ts';
export { type LastGoodStore, openLastGood } from './last-good.ts';
export { type RefusedDocument, RefusedPolicies } from './refused-policies.ts';
export type { CountedEvent, SourceDocument } from './source-documents.ts';
export { createStore } from './store.ts';
export type { AppliedSummary, Store } from './types.ts';
