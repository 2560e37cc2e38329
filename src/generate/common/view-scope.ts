/** The scope that a view's part is generated from, and that the facts it reads are relative to. */
import { defaultScopeId } from '../../model/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { OutboundView, View } from '../types.ts';

/**
 * Undefined when the scope no longer exists: its Sidecar was deleted, and its proxies have moved to another view. Then
 * there is nothing to generate.
 */
export function scopeOfView(snapshot: MeshReader, view: View): ScopeReader | undefined {
  return view.part === 'gateway' ? snapshot.gatewayScope(view.namespace) : snapshot.scopeById(view.scope);
}

/** The scope with the addresses that the view's cluster uses: for everything that contains addresses of services. */
export function addressedScope(snapshot: MeshReader, { scope, cluster }: OutboundView): ScopeReader | undefined {
  return cluster === undefined ? snapshot.scopeById(scope) : snapshot.scopeInCluster(scope, cluster);
}

/** Id of that scope. */
export function scopeIdOfView(view: View): string {
  return view.part === 'gateway' ? defaultScopeId(view.namespace) : view.scope;
}
