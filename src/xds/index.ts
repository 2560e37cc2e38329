/** xDS: node parser, protocol machines, ADS and health over gRPC. */

export { parseNode } from './request/node.ts';
export type { PushedResponse, RejectedResponse, XdsObserver } from './server/observer.ts';
export { createXdsServer, type XdsServer, type XdsServerOptions } from './server/server.ts';
