/**
 * Who may do what: AuthorizationPolicy as Envoy's RBAC and external authorization filters. A request passes all of them, in this
 * order: the external authorizers that CUSTOM rules name are asked; no DENY rule may match it; where there are ALLOW policies, one
 * of their rules has to match it; AUDIT rules note it.
 */
import type { Snapshot } from '../../../model/types.ts';
import type { AuthorizationRule } from '../../../resources/schema/security.ts';
import type { Resource } from '../../../resources/types.ts';
import { trustDomainsOf } from '../../mesh-tls.ts';
import type { GuardedView, HttpFilter, NetworkFilter } from '../types.ts';
import { allowFilter, auditFilter, denyFilter, type NamedPolicies, type Protocol } from './rbac.ts';
import { asksForPaths, rbacPolicy } from './rules.ts';

type Policy = Resource<'AuthorizationPolicy'>;
type Action = NonNullable<Policy['content']['action']>;

/** Begins the names of metadata and counters about AUDIT rules. */
const AUDIT_PREFIX = 'mesh_audit_';

export interface RequestRules {
  /** CUSTOM: asked before tokens are looked at, for an authorizer may be what brings them. */
  readonly external: readonly HttpFilter[];
  readonly local: readonly HttpFilter[];
}

export function requestRules(snapshot: Snapshot, view: GuardedView): RequestRules {
  return { external: [], local: localFilters(snapshot, view, 'http') };
}

export function connectionRules(snapshot: Snapshot, view: GuardedView): NetworkFilter[] {
  return localFilters(snapshot, view, 'tcp');
}

/** Whether what is allowed here depends on a request's path. */
export function guardsPaths(snapshot: Snapshot, view: GuardedView): boolean {
  return policiesFor(snapshot, view).some(({ content }) => (content.rules ?? []).some(asksForPaths));
}

function localFilters(snapshot: Snapshot, view: GuardedView, protocol: Protocol): (HttpFilter & NetworkFilter)[] {
  const of = (action: Action) =>
    policiesFor(snapshot, view).filter(({ content }) => (content.action ?? 'ALLOW') === action);
  const filters: (HttpFilter & NetworkFilter)[] = [];
  const denying = named(snapshot, of('DENY'), 'keep out', protocol);
  if (isFilled(denying)) filters.push(denyFilter(protocol, denying));
  const allowing = of('ALLOW');
  // Where policies let in, nobody else gets in, also when none of their rules can match.
  if (allowing.length > 0) filters.push(allowFilter(protocol, named(snapshot, allowing, 'let in', protocol)));
  const noting = named(snapshot, of('AUDIT'), 'keep out', protocol);
  if (isFilled(noting)) filters.push(auditFilter(protocol, noting, AUDIT_PREFIX));
  return filters;
}

function policiesFor(snapshot: Snapshot, { policies }: GuardedView): Policy[] {
  if (!snapshot.settings.plugins.includes('authz')) return [];
  const table = snapshot.resources('AuthorizationPolicy');
  return policies.authorization.flatMap((key) => table.get(key) ?? []);
}

/** The rules of policies, named as they stand in Envoy's logs: `ns[…]-policy[…]-rule[…]`. */
function named(
  { settings, mesh }: Snapshot,
  policies: readonly Policy[],
  effect: 'let in' | 'keep out',
  protocol: Protocol,
): NamedPolicies {
  const found: Record<string, NamedPolicies[string]> = {};
  const trustDomains = trustDomainsOf(settings, mesh);
  for (const { meta, content } of policies) {
    content.rules?.forEach((rule: AuthorizationRule, index) => {
      const policy = rbacPolicy(rule, { trustDomains, namespace: meta.namespace, effect, protocol });
      if (policy !== undefined) found[`ns[${meta.namespace}]-policy[${meta.name}]-rule[${index}]`] = policy;
    });
  }
  return found;
}

function isFilled(policies: NamedPolicies): boolean {
  return Object.keys(policies).length > 0;
}
