/**
 * Policies about requests: the filters before the application, for sidecars (inbound) and gateways, in the order in
 * which they act: external authorizers (CUSTOM), end users' tokens, DENY, ALLOW, AUDIT, the policy component,
 * everything else.
 */
import { BLACKHOLE_CLUSTER } from '../common/index.ts';
import { connectionDecisions, decisionFilters, tcpProxyChain, telemetryOf } from '../filters/index.ts';
import type { MeshReader } from '../reads/index.ts';
import { tokenFilters, tokenManagerFields } from './authentication/index.ts';
import { connectionRules, requestRules } from './authorization/index.ts';
import type { Certificates, GuardedView, HttpFilter, ManagerFields, NetworkFilter } from './types.ts';

export { authorizerHosts, authorizerHostsOf, callsHost, guardsPaths, policyProblems } from './authorization/index.ts';
export { type GrpcServerPolicies, grpcServerPolicies } from './grpc.ts';
export type { Certificates, GuardedView, HttpFilter, NetworkFilter } from './types.ts';

/** HTTP filters that come before all others. */
export function requestFilters(
  snapshot: MeshReader,
  view: GuardedView,
  certificates: Certificates = 'mesh',
): HttpFilter[] {
  const { external, local } = requestRules(snapshot, view, certificates);
  return [...external, ...tokenFilters(snapshot, view), ...local, ...decisionFilters(view)];
}

/** Fields of the connection manager that these filters need. */
export function guardedManager(snapshot: MeshReader, view: GuardedView): ManagerFields {
  return tokenManagerFields(snapshot, view);
}

/**
 * The network filters of TCP connections: those of the policies, then the given filters that forward the connection. If
 * every connection is refused, they do not forward to an endpoint: Envoy connects to the application before it
 * evaluates policies with the first bytes of the client, so a refused client would receive the first bytes of a server
 * that sends first.
 */
export function guardedConnections(
  snapshot: MeshReader,
  view: GuardedView,
  certificates: Certificates = 'mesh',
): (onward: readonly NetworkFilter[]) => NetworkFilter[] {
  const { filters, refusesAll } = connectionRules(snapshot, view, certificates);
  if (!refusesAll) {
    const decisions = connectionDecisions(view);
    return (onward) => [...filters, ...decisions, ...onward];
  }
  const blackhole = tcpProxyChain(telemetryOf(snapshot, view), BLACKHOLE_CLUSTER).filters ?? [];
  return () => [...filters, ...blackhole];
}
