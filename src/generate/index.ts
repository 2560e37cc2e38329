/** The door of the generation room: pure functions from a snapshot and a view to encoded Envoy resources. */
export { affectedUnits } from './affected.ts';
export { endpointName } from './common/endpoint-names.ts';
export { familiesOfNode } from './common/ip-families.ts';
export { hostOfCluster } from './common/names.ts';
export { scopeOfView } from './common/view-scope.ts';
export { localityOfMesh, networkClass, readsSameLocalities } from './endpoints/classes.ts';
export { encodeEndpoints } from './endpoints/encode.ts';
export { type ClientView, type EndpointsInput, endpointsOfHost, resolveEndpoints } from './endpoints/resolve.ts';
export { ASKED_EXTENSIONS } from './filters/extensions.ts';
export { namesSecrets } from './gateways/index.ts';
export { generate } from './generate.ts';
