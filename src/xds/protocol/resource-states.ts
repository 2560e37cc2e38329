/** Which of the resources that a proxy should have it has acknowledged. */
import type { Bundle, ResourceAnswer } from '../../push/index.ts';
import { findResource } from './client-state.ts';
import { covers } from './interest.ts';
import type { Subscription } from './subscription.ts';

/** `rejected`: the last error of the proxy for this type. */
export type ResourceState = 'acknowledged' | 'outstanding' | { readonly rejected: string };

/**
 * @param parts the resources of the type that the proxy should have @returns undefined if it has not requested the
 * type, whose resources may not be generated yet
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
    // Resources that such a proxy rejected beyond the limits of the quarantine count as delivered.
    if (rejections.overwhelmed) return 'outstanding';
    return subscription.known(name)?.version === version ? 'acknowledged' : 'outstanding';
  };
  return new Map(
    parts.flatMap((part) => part.resources().map(({ name, version }) => [name, stateOf(name, version)] as const)),
  );
}

/** What a proxy did with a resource that it requests and has not accepted. */
export type UnacceptedAnswer = Exclude<ResourceAnswer, 'accepted' | 'unrequested'>;

/** What the proxy did with the resource of this name in its parts of the type. */
export function resourceAnswer(subscription: Subscription, parts: readonly Bundle[], name: string): ResourceAnswer {
  const { interest, rejections, lastError: rejected } = subscription;
  const current = findResource(parts, name);
  // What it rejected beyond the bounds of the quarantine counts as delivered.
  if (rejections.overwhelmed) return rejections.retrying ? 'outstanding' : { rejected, certain: true };
  if (current === undefined || interest === undefined || !covers(interest, name)) return 'unrequested';
  const { version } = current;
  if (rejections.quarantined.get(name) === version) return { rejected, certain: true };
  if (subscription.known(name)?.version === version) return 'accepted';
  return rejections.searching ? { rejected, certain: false } : 'outstanding';
}
