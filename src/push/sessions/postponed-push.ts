/** Pushes that wait for another part of the same proxy, and what they merge to. */
import { XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { Bundle, Parts, PendingPush } from '../types.ts';

/** A push that waits for another part of the same proxy; it gets its version when it is sent. */
export type PostponedPush = Omit<PendingPush, 'version'>;

/** A push merged with an earlier one that was postponed. */
export function mergedPush(push: PostponedPush, held: PostponedPush | undefined): PostponedPush {
  if (held === undefined) return push;
  return {
    types: push.types.union(held.types),
    eventTime: Math.min(push.eventTime, held.eventTime),
    reasons: push.reasons.union(held.reasons),
  };
}

/** Types for which these parts have different resources. */
export function changedTypes(before: Parts, now: Parts): ReadonlySet<XdsType> {
  return new Set(XDS_TYPES.filter((type) => differs(before[type], now[type])));
}

function differs(before: readonly Bundle[], now: readonly Bundle[]): boolean {
  if (before.length !== now.length) return true;
  return now.some((bundle, index) => {
    const { changed, removed } = bundle.diffFrom(before[index]);
    return changed.length > 0 || removed.length > 0;
  });
}
