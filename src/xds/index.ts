/**
 * xDS: discovery requests in, responses out. `protocol/` has the state machines, `request/` reads requests, `server/`
 * serves both over gRPC.
 */

export { parseNode } from './request/index.ts';
export {
  createXdsServer,
  type PushedResponse,
  type RejectedResponse,
  type XdsObserver,
  type XdsServer,
  type XdsServerOptions,
} from './server/index.ts';
