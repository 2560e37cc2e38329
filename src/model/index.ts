/**
 * The model: builds snapshots of the mesh and steps from one to the next. `types.ts` defines what a snapshot contains.
 */

export { type Addressing, addressingKey, servicesFor } from './addressing.ts';
export { clustersOfChange } from './cluster-addresses.ts';
export { canonicalHost, hostMatches, isWildcardHost, matchingPatterns } from './hosts.ts';
export { isEmptySelector, labelsMatch } from './labels.ts';
export { namesOfLocality } from './localities.ts';
export { MeshModel, Model, type ModelStep, type ModelUpdate } from './model.ts';
export { networkAddress, statedNetworks } from './network-names.ts';
export { addressBytes, addressId, networkOfRegistry } from './networks.ts';
export { compareCreated, compareMeta, compareText } from './order.ts';
export { decidesForAll } from './ownership.ts';
export { modeOfPort } from './peer-authentication.ts';
export { parseProtocol } from './protocol.ts';
export { defaultScopeId } from './scope-plan.ts';
export {
  type BoundInstance,
  type ChangeSet,
  CONFIG_KINDS,
  type ConfigKind,
  type EgressListener,
  type Endpoint,
  type Gateway,
  type Health,
  type MergedDestinationRule,
  type MeshDelta,
  type MeshSnapshot,
  type ModelSettings,
  type MutualTlsMode,
  type NameConflict,
  type PeerAuthentication,
  type Protocol,
  type ProxyNetwork,
  type RegisteredWorkload,
  type ResolvedVirtualService,
  type Scope,
  type ScopeChange,
  type Service,
  type ServiceKey,
  type ServicePeers,
  type ServicePort,
  type Snapshot,
  type SnapshotFindings,
  type WorkloadPolicies,
} from './types.ts';
export { destinationHosts, gatewayName } from './virtual-services.ts';
export { isTlsReady, podAddresses } from './workloads.ts';
