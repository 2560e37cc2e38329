/** Recorded reads: the reader that generators get, and the recording of what they read. */
export type { Fact } from './facts.ts';
export * as fact from './facts.ts';
export { type EgressReader, MeshReader, type ScopeReader } from './reader.ts';
export { type Facts, note, noteAll, type Recorded, recorded, unrecorded } from './recorder.ts';
export { isStream, mayBeHttp, Rules, Services } from './services.ts';
export {
  type ConnectionRoutes,
  DEFAULT_HTTP_PORT,
  routesConnections,
  routesRequests,
  VirtualServices,
} from './virtual-services.ts';
