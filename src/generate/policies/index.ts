/**
 * The door of policies about requests: the filters that stand before the application, for sidecars (inbound) and
 * gateways alike, in the order in which they act.
 *
 *   external authorizers (CUSTOM) ──▶ end users' tokens ──▶ DENY ──▶ ALLOW ──▶ AUDIT ──▶ everything else
 */
import { BLACKHOLE_CLUSTER } from '../common/index.ts';
import { tcpProxyChain } from '../filters/index.ts';
import type { MeshReader } from '../reads/index.ts';
import { tokenFilters, tokenManagerFields } from './authentication/index.ts';
import { connectionRules, requestRules } from './authorization/index.ts';
import type { GuardedView, HttpFilter, ManagerFields, NetworkFilter } from './types.ts';

export { askedBy, askedHosts, asks, guardsPaths, policyProblems } from './authorization/index.ts';
export type { GuardedView, HttpFilter, NetworkFilter } from './types.ts';

/** HTTP filters, to stand before all others. */
export function requestFilters(snapshot: MeshReader, view: GuardedView): HttpFilter[] {
  const { external, local } = requestRules(snapshot, view);
  return [...external, ...tokenFilters(snapshot, view), ...local];
}

/** Fields of the connection manager that these filters need. */
export function guardedManager(snapshot: MeshReader, view: GuardedView): ManagerFields {
  return tokenManagerFields(snapshot, view);
}

/**
 * What connections pass that are handed on as bytes: given the filters that hand them on, those of the policies and
 * then these. Where nobody gets through, they lead nowhere: Envoy asks its policies with a client's first bytes, and
 * connects to the application before, whose first words a client would be told that may not be served.
 */
export function guardedConnections(
  snapshot: MeshReader,
  view: GuardedView,
): (onward: readonly NetworkFilter[]) => NetworkFilter[] {
  const { filters, refusesAll } = connectionRules(snapshot, view);
  if (!refusesAll) return (onward) => [...filters, ...onward];
  const nowhere = tcpProxyChain(snapshot, view, BLACKHOLE_CLUSTER).filters ?? [];
  return () => [...filters, ...nowhere];
}
