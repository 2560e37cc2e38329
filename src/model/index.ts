/**
 * The door of the model: snapshots made and stepped; what they are stands in `types.ts`, host wildcards in `hosts.ts`.
 */

export { fullHostname, hostMatches, hostsOverlap, isWildcardHost, serviceHostname } from './hosts.ts';
export { isEmptySelector, labelsMatch } from './labels.ts';
export { MeshModel, Model, type ModelOptions, type ModelStep, type ModelUpdate } from './model.ts';
export { addressOfKey, networkAddress, statedNetworks } from './network-names.ts';
export { modeOfPort } from './peer-authentication.ts';
export { defaultScopeId } from './scope-plan.ts';
export type {
  BoundInstance,
  ChangeSet,
  Endpoint,
  ModelSettings,
  NameConflict,
  Service,
  Snapshot,
  SnapshotFindings,
} from './types.ts';
export { destinationHosts, gatewayName } from './virtual-services.ts';
