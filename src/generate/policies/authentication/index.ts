/** End users' tokens: RequestAuthentication as Envoy's jwt_authn filter. */
import type { Snapshot } from '../../../model/types.ts';
import type { GuardedView, HttpFilter } from '../types.ts';

/** The filter that checks tokens; none where no rule speaks of the workload. */
export function tokenFilters(_snapshot: Snapshot, _view: GuardedView): HttpFilter[] {
  return [];
}
