/** Whether a proxy has what it should have of a type. */
import type { Bundle } from '../../push/index.ts';
import { type ClientState, findResource, sameBundles } from './client-state.ts';
import type { Inflight } from './inflight.ts';
import type { Interest } from './interest.ts';
import { REMOVE_ALL, type RemovalPolicy } from './plans/removal-policy.ts';
import type { KnownDoubts } from './rejections/doubts.ts';
import type { KnownRejections } from './rejections/rejection.ts';

/** What a subscription knows of its proxy. */
interface Known {
  readonly interest: Interest | undefined;
  readonly state: ClientState;
  readonly inflight: Inflight | undefined;
  readonly forced: { readonly size: number };
  readonly hasMore: boolean;
  readonly responseRequired: boolean;
  readonly presumes: boolean;
  readonly rejections: KnownRejections;
  readonly doubts: KnownDoubts;
}

/** Whether nothing is outstanding and the proxy has these parts, except for quarantined resources and removals. */
export function isSettled(subscription: Known, parts: readonly Bundle[]): boolean {
  const { interest, inflight, forced, responseRequired, rejections, state, hasMore } = subscription;
  if (interest === undefined) return true;
  if (inflight !== undefined || forced.size > 0 || responseRequired || rejections.searching || hasMore) return false;
  if (!sameBundles(state.bases, parts)) return false;
  if (state.overlay.size === 0) return true;
  for (const name of state.overlay.keys())
    if (!rejections.quarantined.has(name) && findResource(parts, name) !== undefined) return false;
  return true;
}

/** Whether it is settled and all removals that `removes` permits are complete. */
export function isComplete(
  subscription: Known,
  parts: readonly Bundle[],
  removes: RemovalPolicy = REMOVE_ALL,
): boolean {
  if (!isSettled(subscription, parts)) return false;
  const { state, rejections } = subscription;
  if (state.overlay.size === 0) return true;
  for (const name of state.overlay.keys()) if (!rejections.quarantined.has(name) && removes(name)) return false;
  return true;
}

/**
 * Whether there is nothing to compute for these parts: the proxy has exactly these, without exceptions, or has not
 * subscribed. This implies {@link isComplete}, and stays true until a request comes or the parts change.
 */
export function isUpToDate(subscription: Known, parts: readonly Bundle[]): boolean {
  const { interest, inflight, state, forced, responseRequired } = subscription;
  if (interest === undefined) return true;
  return (
    inflight === undefined &&
    sameBundles(state.bases, parts) &&
    state.overlay.size === 0 &&
    subscription.doubts.empty &&
    forced.size === 0 &&
    !subscription.hasMore &&
    !responseRequired &&
    subscription.rejections.empty &&
    !subscription.presumes
  );
}
