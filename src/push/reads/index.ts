/** The recorded reads of each unit of each view, and the units that a change affects. */
export { ReadIndex, ReadSet } from './read-index.ts';
export { NO_READS, type NumberedReads, ReceivedReads, SentReads } from './read-numbers.ts';
export { namesUnknownReads, ViewReads } from './view-reads.ts';
