/** Who may do what: AuthorizationPolicy as Envoy's RBAC and external authorization filters. */
import type { Snapshot } from '../../../model/types.ts';
import type { GuardedView, HttpFilter, NetworkFilter } from '../types.ts';

export interface RequestRules {
  /** CUSTOM: asked before tokens are looked at, for an authorizer may be what brings them. */
  readonly external: readonly HttpFilter[];
  readonly local: readonly HttpFilter[];
}

export function requestRules(_snapshot: Snapshot, _view: GuardedView): RequestRules {
  return { external: [], local: [] };
}

export function connectionRules(_snapshot: Snapshot, _view: GuardedView): NetworkFilter[] {
  return [];
}
