/** Name of a document that `greedy-worker.ts` takes memory without end for. */
export const GREEDY = 'needs-too-much-memory';
