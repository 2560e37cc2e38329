/**
 * The door of policies about requests: the filters that stand before the application, for sidecars (inbound) and gateways alike, in
 * the order in which they act.
 *
 *   external authorizers (CUSTOM) ──▶ end users' tokens ──▶ DENY ──▶ ALLOW ──▶ AUDIT ──▶ everything else
 */
import type { ChangeSet, MeshSnapshot } from '../../model/types.ts';
import { keySetKey, keySetReference } from '../../resources/key-sets.ts';
import type { ResourceKey } from '../../resources/types.ts';
import { BLACKHOLE_CLUSTER } from '../common/index.ts';
import { tcpProxyChain } from '../filters/index.ts';
import { tokenFilters, tokenManagerFields } from './authentication/index.ts';
import { askedHosts, connectionRules, requestRules } from './authorization/index.ts';
import type { GuardedView, HttpFilter, ManagerFields, NetworkFilter } from './types.ts';

export { askedHosts, guardsPaths, policyProblems } from './authorization/index.ts';
export type { GuardedView, HttpFilter, NetworkFilter } from './types.ts';

/** HTTP filters, to stand before all others. */
export function requestFilters(snapshot: MeshSnapshot, view: GuardedView): HttpFilter[] {
  const { external, local } = requestRules(snapshot, view);
  return [...external, ...tokenFilters(snapshot, view), ...local];
}

/** Fields of the connection manager that these filters need. */
export function guardedManager(snapshot: MeshSnapshot, view: GuardedView): ManagerFields {
  return tokenManagerFields(snapshot, view);
}

/**
 * What connections pass that are handed on as bytes: given the filters that hand them on, those of the policies and then these. Where
 * nobody gets through, they lead nowhere: Envoy asks its policies with a client's first bytes, and connects to the application
 * before, whose first words a client would be told that may not be served.
 */
export function guardedConnections(
  snapshot: MeshSnapshot,
  view: GuardedView,
): (onward: readonly NetworkFilter[]) => NetworkFilter[] {
  const { filters, refusesAll } = connectionRules(snapshot, view);
  if (!refusesAll) return (onward) => [...filters, ...onward];
  const nowhere = tcpProxyChain(snapshot, view, BLACKHOLE_CLUSTER).filters ?? [];
  return () => [...filters, ...nowhere];
}

/** Whether a change is about the content of the view's policies, about keys that they ask for, or about whom they ask. */
export function changesPolicies(
  previous: MeshSnapshot,
  next: MeshSnapshot,
  change: ChangeSet,
  view: GuardedView,
): boolean {
  const { authentication, authorization } = view.policies;
  const { configs } = change;
  if ([...authentication, ...authorization].some((key) => configs.has(key))) return true;
  return [previous, next].some(
    (snapshot) =>
      authentication.some((key) => keySetsOf(snapshot, key).some((keySet) => configs.has(keySet))) ||
      changesAsked(snapshot, change, view),
  );
}

/** Whether a service that is asked comes, goes, or is another than before. */
function changesAsked(snapshot: MeshSnapshot, { scopes }: ChangeSet, view: GuardedView): boolean {
  const asked = askedHosts(snapshot, view);
  if (asked.size === 0) return false;
  const scope = view.part === 'gateway' ? snapshot.gatewayScope(view.namespace).id : view.scope;
  const hosts = scopes.get(scope)?.hosts;
  return hosts !== undefined && [...asked].some((host) => hosts.has(host));
}

function keySetsOf(snapshot: MeshSnapshot, policy: ResourceKey): ResourceKey[] {
  const rules = snapshot.resources('RequestAuthentication').get(policy)?.content.jwtRules ?? [];
  return rules.flatMap((rule) => {
    const reference = keySetReference(rule);
    return reference === undefined ? [] : [keySetKey(reference)];
  });
}
