/**
 * The model: builds snapshots of the mesh and steps from one to the next. `types.ts` defines what a snapshot contains.
 */

export { type Addressing, addressingKey, servicesFor } from './addresses/addressing.ts';
export { clustersOfChange } from './addresses/cluster-addresses.ts';
export { MAX_GATEWAY_HOSTS } from './addresses/network-gateways.ts';
export { canonicalHost, fullHostname, hostMatches, isWildcardHost, matchingPatterns } from './common/hosts.ts';
export { isEmptySelector, labelsMatch } from './common/labels.ts';
export { addressBytes, addressId, networkOfRegistry } from './common/networks.ts';
export { compareCreated, compareMeta, compareText } from './common/order.ts';
export { parseProtocol, protocolOfPort } from './common/protocol.ts';
export { isVisible, normaliseExportTo } from './common/visibility.ts';
export { changedEndpoints } from './endpoints/endpoint-changes.ts';
export { MeshModel, Model, type ModelChange } from './model.ts';
export { modeOfPort } from './policies/peer-authentication.ts';
export { selectedRule } from './rules/destination-rules.ts';
export { gatewayName } from './rules/route-names.ts';
export { findAlike } from './rules/rule-finder.ts';
export { destinationHosts } from './rules/virtual-services.ts';
export { defaultScopeId, type NamedHosts, namedHosts } from './scopes/scope-plan.ts';
export { decidesForAll, mayClaimForOthers, ownCallersOnly } from './services/ownership.ts';
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
  type NetworkGateway,
  type NetworkGateways,
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
  type WorkloadResource,
} from './types/types.ts';
export { namesOfLocality } from './workloads/localities.ts';
export { networkAddress, statedNetworks } from './workloads/network-names.ts';
export { isTlsReady, podAddresses } from './workloads/workloads.ts';
export {
  entryOfProxyKey,
  groupOfProxyKey,
  isEntryOfProxy,
  isPodOfProxy,
  labelsOfEntry,
  type ProxyOfEntry,
  type ProxyOfPod,
  podOfProxyKey,
  registeredEntryName,
  registeredNetwork,
} from './workloads/workloads-of-proxies.ts';
