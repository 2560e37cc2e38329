/** The scope that a view's part is generated from, and to which the facts that it reads belong. */
import { defaultScopeId } from '../../model/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { OutboundView, View } from '../views.ts';

/**
 * Undefined if the scope no longer exists: its Sidecar was deleted, and its proxies have moved to another view. There
 * is nothing to generate then.
 */
export function scopeOfView(snapshot: MeshReader, view: View): ScopeReader | undefined {
  if (view.part === 'gateway') return snapshot.gatewayScope(view.namespace, view.ruleLabels);
  return snapshot.scopeById(view.scope, 'ruleLabels' in view ? view.ruleLabels : undefined);
}

/**
 * The scope with the addresses that the view's proxies use, for resources that contain addresses of services. Without
 * redirection, allocated addresses are not used, because no proxy would receive connections to them.
 */
export function addressedScope(
  snapshot: MeshReader,
  { scope, cluster, dns, families, interception, ruleLabels }: OutboundView,
): ScopeReader | undefined {
  const allocated = dns === undefined || interception === 'NONE' ? undefined : families;
  if (cluster === undefined && allocated === undefined) return snapshot.scopeById(scope, ruleLabels);
  const addressing = { ...(cluster && { cluster }), ...(allocated && { allocated }) };
  return snapshot.scopeWithAddresses(scope, addressing, ruleLabels);
}

export function scopeIdOfView(view: View): string {
  return view.part === 'gateway' ? defaultScopeId(view.namespace) : view.scope;
}
