/** The part of a change that streams get: one object, shared by all sessions and views that the change affects. */
import type { XdsType } from '../core/xds-types.ts';

/** Why a push happens: the label values of `ctl_push_triggers`. */
export type PushReason = 'config' | 'endpoint' | 'service' | 'mesh' | 'proxy' | 'debug';

/** A push to a proxy, for one change or for several that were merged. Never modified. */
export interface Push {
  /** The types whose resources may differ. Empty while the resources are still to be generated. */
  readonly types: ReadonlySet<XdsType>;
  /** The snapshot version that the proxy has to reach. */
  readonly version: number;
  /** Of the earliest event that it covers, monotonic ms: convergence is measured from here. */
  readonly eventTime: number;
  readonly reasons: ReadonlySet<PushReason>;
}

/** A push merged with an earlier one: the newest version, the earliest event time. */
export function mergedPush(push: Push, earlier: Push | undefined): Push {
  if (earlier === undefined) return push;
  return {
    types: joined(earlier.types, push.types),
    version: Math.max(earlier.version, push.version),
    eventTime: Math.min(earlier.eventTime, push.eventTime),
    reasons: joined(earlier.reasons, push.reasons),
  };
}

function joined<T>(known: ReadonlySet<T>, more: ReadonlySet<T>): ReadonlySet<T> {
  return more.isSubsetOf(known) ? known : known.union(more);
}
