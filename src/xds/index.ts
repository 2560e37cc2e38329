/** xDS: node parser, protocol machines, ADS and health over gRPC. */

export { parseNode } from './node.ts';
export type { PushedResponse, RejectedResponse, XdsObserver } from './observer.ts';
export { createXdsServer, type XdsServer, type XdsServerOptions } from './server.ts';
