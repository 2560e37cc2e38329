/**
 * xDS: discovery requests in, responses out. `protocol/` has the state machines, `request/` reads requests, `server/`
 * serves both over gRPC.
 */

export {
  type CostOfAll,
  concernedNames,
  costOfAll,
  type HeldBecause,
  type HeldContent,
  leadsTo,
} from './on-demand/index.ts';
export { configMap, fileIn, SavedHosts } from './saved-hosts/index.ts';
export {
  type ConfigServing,
  type ConnectedProxy,
  createXdsServer,
  type DebugAnswer,
  type DebugPages,
  type DebugQuestion,
  type DebugResource,
  type DemandCounts,
  isIdentityKey,
  type KnownPod,
  type PodFinder,
  type WorkloadConnected,
  type WorkloadStream,
  type XdsObserver,
  type XdsServer,
  type XdsServerOptions,
} from './server/index.ts';
