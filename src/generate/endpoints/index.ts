/** The endpoints of clusters: which ones a view has, their weights and priorities, and their messages. */
export { assignEndpoints } from './assign.ts';
export { changedLocalityNames, comparedLabelsOfMesh, localityOfMesh, networkClass, readsPlacement } from './classes.ts';
export { endpointsInCluster } from './cluster-local.ts';
export { type Discovery, discoveryOf } from './discovery.ts';
export { encodeEndpoints } from './encode.ts';
export { labelsForFailover } from './failover-priority.ts';
export { assignmentMessage, TLS_MODE } from './message.ts';
export {
  type ClientView,
  type ClusterTarget,
  type EdsInput,
  type EndpointSources,
  type EndpointsInput,
  type EnvoyClientView,
  endpointSources,
  endpointsInput,
  endpointsNameOf,
  endpointsOfHost,
  isClientView,
  localitySetting,
  resolveEndpoints,
} from './resolve.ts';
