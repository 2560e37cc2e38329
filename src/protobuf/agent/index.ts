/**
 * Entry point of the agent's messages: those of `AGENT_MESSAGES` in `proto/messages.ts`, compiled into a separate
 * module. Separate from that of `protobuf`, whose module with all of Envoy's messages needs more memory than the rest
 * of the agent.
 */
export { envoy, google, grpc, istio, mesh, spiffe } from '../../../proto/gen/agent.js';
