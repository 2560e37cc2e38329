/** Entry point of the sources: where resources come from. */
export { createDirectorySource, type DirectorySourceOptions } from './directory/directory.ts';
export { createFileValue, type FileValue, type FileValueOptions } from './file-value.ts';
export { HealthLog } from './health.ts';
export { createKubernetesSource, type KubernetesSourceOptions } from './kubernetes/kubernetes.ts';
export { createMockSource, type MockSourceOptions } from './mock.ts';
export type { Source, SourceHealth, SourceIdentity, SourceSink } from './source.ts';
