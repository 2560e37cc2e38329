/** What was read of the snapshot for each unit of each view, and which units a change touches. */
export { ReadIndex, ReadSet } from './read-index.ts';
export { NO_READS, type NumberedReads, ReceivedReads, SentReads } from './read-numbers.ts';
export { namesUnknownReads, ViewReads } from './view-reads.ts';
