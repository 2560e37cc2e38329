/** Which of the resources that a proxy should have it has acknowledged. */
import type { Bundle } from '../../push/index.ts';
import type { Subscription } from './subscription.ts';

/** `rejected`: the last error of the proxy for this type. */
export type ResourceState = 'acknowledged' | 'outstanding' | { readonly rejected: string };

/**
 * @param parts what the proxy should have of the type
 * @returns undefined where it has not asked for the type: what it should have may not be generated yet
 */
export function resourceStates(
  subscription: Subscription,
  parts: readonly Bundle[],
): ReadonlyMap<string, ResourceState> | undefined {
  const { interest, rejections } = subscription;
  if (interest === undefined) return undefined;
  const rejected = { rejected: subscription.lastError };
  const stateOf = (name: string, version: string): ResourceState => {
    if (rejections.quarantined.get(name) === version) return rejections.retrying ? 'outstanding' : rejected;
    // What such a proxy rejected beyond the bounds of the quarantine counts as delivered there.
    if (rejections.overwhelmed) return 'outstanding';
    return subscription.known(name)?.version === version ? 'acknowledged' : 'outstanding';
  };
  return new Map(
    parts.flatMap((part) => part.resources().map(({ name, version }) => [name, stateOf(name, version)] as const)),
  );
}
