/** xDS: node parser, protocol machines, ADS and health over gRPC. This is the room's door. */

export { parseNode } from './node.ts';
export type { PushedResponse, RejectedResponse, XdsObserver } from './observer.ts';
export { createXdsServer, type XdsServer, type XdsServerOptions } from './server.ts';
