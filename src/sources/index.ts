/** Entry point of the sources: where resources come from. */

export { type ConfigRefusal, type ParsedText, parseConfigText } from './config-text.ts';
export { createConsulSource } from './consul/consul.ts';
export { CONSISTENCY_MODES, type Consistency, type ConsulSettings, type ConsulSourceOptions } from './consul/types.ts';
export { createDirectorySource, type DirectorySourceOptions } from './directory/directory.ts';
export { longestDocument, readDocuments } from './directory/documents.ts';
export { originOf, type ReadDocument, readPaths, readText } from './directory/read-once.ts';
export { createFileValue } from './file-value.ts';
export {
  type FollowedConfigMap,
  followConfigMap,
} from './kubernetes/config-map.ts';
export { Definitions } from './kubernetes/definitions.ts';
export { createKubernetesSource, type KubernetesSourceOptions, OWN_CLUSTER_SOURCE } from './kubernetes/kubernetes.ts';
export { DEFINITIONS, definedKinds, type ServedType } from './kubernetes/types.ts';
export { createPeerSource } from './mcp/mcp.ts';
export type { MeshCertificate } from './mcp/peer-tls.ts';
export { createMockSource } from './mock.ts';
export { namedSource } from './named-source.ts';
export { type PaceOptions, pacedSource } from './paced-source.ts';
export { ReadingShares } from './pacing/reading-shares.ts';
export {
  applyInSlices,
  replaceInSlices,
  type Source,
  type SourceHealth,
  type SourceIdentity,
  type SourceSink,
  staleMs,
} from './source.ts';
export { createStagedSink, type StagedSink } from './staged-sink.ts';
