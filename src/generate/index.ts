/** The door of the generation room: pure functions from a snapshot and a view to encoded Envoy resources. */
export { affectedUnits } from './affected.ts';
export { encodeEndpoints } from './endpoints/encode.ts';
export { type ClientView, type EndpointsInput, resolveEndpoints, serviceOfCluster } from './endpoints/resolve.ts';
export { generate, unitsOf } from './generate.ts';
export { clusterName, parseClusterName } from './names.ts';
