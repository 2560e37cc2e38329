/** The door of the generation room: pure functions from a snapshot and a view to encoded Envoy resources. */
export { affectedUnits } from './affected.ts';
export { endpointName } from './endpoint-names.ts';
export { localityOfMesh, networkClass, readsSameLocalities } from './endpoints/classes.ts';
export { encodeEndpoints } from './endpoints/encode.ts';
export { type ClientView, type EndpointsInput, endpointsOfHost, resolveEndpoints } from './endpoints/resolve.ts';
export { namesSecrets } from './gateways/index.ts';
export { generate } from './generate.ts';
export { familiesOfNode } from './ip-families.ts';
export { ASKED_EXTENSIONS } from './listeners/extensions.ts';
export { hostOfCluster } from './names.ts';
export { scopeOfView } from './view-scope.ts';
