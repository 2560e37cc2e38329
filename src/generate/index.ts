/** Generation: pure functions from a snapshot and a view to encoded Envoy resources. */
export { type ChangedFacts, changedFacts, type FactChanges, factsAbout } from './changed-facts.ts';
export { laterClusterUnits } from './clusters/index.ts';
export {
  endpointName,
  familiesOfNode,
  hostOfCluster,
  OUTBOUND_PREFIX,
  scopeIdOfView,
  scopeOfView,
} from './common/index.ts';
export {
  type ClientView,
  changedLocalityNames,
  comparedLabelsOfMesh,
  type EdsInput,
  type EndpointsInput,
  encodeEndpoints,
  endpointsOfHost,
  isClientView,
  labelsForFailover,
  localityOfMesh,
  networkClass,
  resolveEndpoints,
} from './endpoints/index.ts';
export { ASKED_EXTENSIONS, ON_DEMAND_FILTER } from './filters/index.ts';
export { generate, generateInSlices, mayGenerateHosts } from './generate.ts';
export { changedNeeds, type PolicyNeeds, policyNeeds } from './indexes/index.ts';
export { PATCH_CONTEXTS } from './patches/index.ts';
export { type Fact, type Facts, fact, MeshReader, note, recorded, unrecorded } from './reads/index.ts';
export { namesSecrets } from './secrets/index.ts';
export { ALL_UNITS, hostOfServiceKey, TouchedUnits, touchedUnits } from './touched-units.ts';
export {
  type FormerFilter,
  type FormerFilters,
  GENERATED_FOR,
  GENERATED_TYPES,
  type GeneratedResource,
  type GeneratedType,
  type GenerationFailure,
  type GenerationFinding,
  type GenerationResult,
  type HostsPart,
  type Misfit,
  type TypeReads,
  type Unit,
  type UnitSelection,
} from './types.ts';
export {
  type AppliedFilter,
  type Capabilities,
  DEFAULT_PLACEMENT,
  type EndpointNames,
  type EnvoyView,
  type GatewayView,
  type GrpcClientView,
  type GrpcServerView,
  type InboundPort,
  type InboundView,
  type OnDemand,
  OTHER_CLUSTER,
  type OutboundView,
  PATCHED_TYPES,
  type PatchedType,
  type Placement,
  type View,
} from './views.ts';
