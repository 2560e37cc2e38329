/** The xDS server: ADS and health over gRPC, who may have a stream, and what is read from and written to each. */

export { isIdentityKey } from './caller-key.ts';
export type { KnownPod, PodFinder } from './node-authorization.ts';
export type { PushedResponse, RejectedResponse, XdsObserver } from './observer.ts';
export { createXdsServer, type XdsServer, type XdsServerOptions } from './server.ts';
export type { ConnectedProxy, WorkloadConnected, WorkloadStream } from './workload-stream.ts';
