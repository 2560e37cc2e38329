/** The door of the model: snapshots made and stepped; what they are stands in `types.ts`, host wildcards in `hosts.ts`. */
export {
  applyChanges,
  applyDelta,
  createMesh,
  createModel,
  type ModelOptions,
  type ModelStep,
  type ModelUpdate,
  replay,
} from './apply.ts';
export { fullHostname, hostMatches, hostsOverlap, isWildcardHost, serviceHostname } from './hosts.ts';
export { isEmptySelector, labelsMatch } from './labels.ts';
export { addressOfKey, networkAddress } from './network-names.ts';
export { modeOfPort } from './peer-authentication.ts';
export { defaultScopeId } from './scope-plan.ts';
export { builtScopes, releaseScopes } from './snapshot.ts';
export { destinationHosts } from './virtual-services.ts';
