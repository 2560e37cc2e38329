/** The xDS server: ADS and health over gRPC, the authorization of streams, and their input and output. */

export type { ConfigServing } from './config-requests.ts';
export type { DebugAnswer, DebugPages, DebugQuestion, DebugResource } from './debug-stream.ts';
export type { DemandCounts } from './demand/demand-of-streams.ts';
export { isIdentityKey } from './limits/caller-key.ts';
export type { KnownPod, PodFinder } from './node-authorization.ts';
export type { PushedResponse, RejectedResponse, XdsObserver } from './observer.ts';
export { createXdsServer, type XdsServer } from './server.ts';
export type { XdsServerOptions } from './server-options.ts';
export type { ConnectedProxy, WorkloadConnected, WorkloadStream } from './workload-stream.ts';
