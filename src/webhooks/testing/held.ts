/** A review that lasts until the test ends it: see `held-worker.ts`. */

/** Annotation of the document: the folder of the two files. */
export const HELD_IN = 'held-in';
/** The file that exists once the review has begun. */
export const BEGUN = 'begun';
/** The file with which the test ends it. */
export const LET_GO = 'let-go';
