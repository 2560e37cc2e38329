/** What the two variants of the protocol have in common, seen from the machine that drives them. */
import type { Bundle } from '../../push/types.ts';
import { type NameSet, NO_NAMES, onlyName } from './name-set.ts';
import type { Removes } from './removes.ts';
import type { Mode, ResponseMessage } from './responses.ts';
import type { SharedResults } from './shared-results.ts';
import type { Answer, Subscription } from './subscription.ts';

/** Where and when a response is made. */
export interface ResponseContext {
  readonly nonce: string;
  /** Snapshot version that the parts stand at. */
  readonly snapshot: number;
  /** Whether what is gone may be taken from the proxy now (nothing it has refers to it any more), by name. */
  readonly removes: Removes;
}

export interface Protocol<Request> {
  readonly mode: Mode;
  /** Of the server that speaks it. */
  readonly shared: SharedResults;
  /** Nonce of the response that a request answers; empty when it answers none. */
  nonceOf(request: Request): string;
  /** Takes a request of the subscription's type. Throws CtlError invalid_argument when it asks for too much. */
  receive(subscription: Subscription, request: Request, parts: readonly Bundle[], nowMs: number): Answer;
  /**
   * The response that brings the proxy to `parts`, recorded as sent; undefined when it needs none (then it counts as
   * being there). Not to be called while a response is outstanding.
   */
  respond(subscription: Subscription, parts: readonly Bundle[], context: ResponseContext): ResponseMessage | undefined;
}

/**
 * Explicit wildcard
 * (https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#how-the-client-specifies-what-resources-to-return).
 */
export const WILDCARD = '*';

const ONLY_WILDCARD = onlyName(WILDCARD);

/** The names among those of a request that are names of resources. */
export function withoutWildcard(names: NameSet, { names: sets }: SharedResults): NameSet {
  return names.has(WILDCARD) ? sets.change(names, NO_NAMES, ONLY_WILDCARD) : names;
}

/**
 * Names that one stream may subscribe to, per type: what one request may name, with room for a few incremental ones.
 */
export const MAX_SUBSCRIBED_NAMES = 400_000;
