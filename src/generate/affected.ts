/**
 * What has to be generated again for a view after a change: enough that the view then equals one generated afresh, byte for byte
 * (a property test says so), and as little as that allows.
 */
import type { ChangeSet, MeshSnapshot } from '../model/types.ts';
import { affectedGateway } from './affected/gateway.ts';
import { ALL_UNITS } from './affected/marks.ts';
import { affectedOutbound } from './affected/outbound.ts';
import { changesPolicies } from './policies/index.ts';
import type { InboundView, UnitSelection, View } from './types.ts';

/**
 * The units of a view that `change` touches; undefined for none. `previous` and `next` are the snapshots that the change lies
 * between. Units that no longer exist are among them: generating them gives no resources.
 */
export function affectedUnits(
  previous: MeshSnapshot,
  next: MeshSnapshot,
  change: ChangeSet,
  view: View,
): UnitSelection | undefined {
  if (change.everything) return ALL_UNITS;
  switch (view.part) {
    case 'outbound':
      return affectedOutbound(previous, next, change, view);
    case 'inbound':
      return affectedInbound(previous, next, change, view);
    case 'gateway':
      return affectedGateway(previous, next, change, view);
  }
}

/** Everything else that the inbound part reads stands in the view, and changes it into another view. */
function affectedInbound(
  previous: MeshSnapshot,
  next: MeshSnapshot,
  change: ChangeSet,
  view: InboundView,
): UnitSelection | undefined {
  const { scope } = view;
  const existed = previous.scopeById(scope) !== undefined;
  const exists = next.scopeById(scope) !== undefined;
  if (existed !== exists || change.scopes.get(scope)?.everything === true) return ALL_UNITS;
  return changesPolicies(previous, next, change, view) ? { lds: 'all' } : undefined;
}
