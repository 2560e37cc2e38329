/** The scope that a view's part is generated from. */
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { View } from '../types.ts';

/**
 * Undefined when the scope is gone (its Sidecar was deleted, and its proxies are in another view by now): then nothing
 * is to be made.
 */
export function scopeOfView(snapshot: MeshReader, view: View): ScopeReader | undefined {
  return view.part === 'gateway' ? snapshot.gatewayScope(view.namespace) : snapshot.scopeById(view.scope);
}
