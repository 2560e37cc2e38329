/** Door of the sources room. */
export { type Clock, systemClock, type Timer } from './clock.ts';
export { createDirectorySource, type DirectorySource, type DirectorySourceOptions } from './directory/directory.ts';
export { createFileValue, type FileValue, type FileValueOptions } from './file-value.ts';
export type { Log } from './log.ts';
export { type MockSourceOptions, startMockSource } from './mock.ts';
