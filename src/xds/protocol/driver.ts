/**
 * Takes the requests of one type and makes its responses, in either variant of the protocol: nonces, plans and
 * rejections are handled here; the differences between the variants are in a {@link Variant}.
 */
import type { Bundle } from '../../push/index.ts';
import { type Answer, NO_ANSWER } from './inflight.ts';
import type { AnyRequest } from './requests.ts';
import type { ResponseMessage } from './responses.ts';
import type { Subscription } from './subscription.ts';
import type { ResponseContext, Variant } from './variant.ts';

/** Takes a request of the subscription's type. Throws CtlError invalid_argument when it subscribes to too much. */
export function receive<Request extends AnyRequest>(
  variant: Variant<Request>,
  subscription: Subscription,
  request: Request,
  parts: readonly Bundle[],
  nowMs: number,
): Answer {
  const before = subscription.interest;
  if (before === undefined) {
    variant.subscribe(subscription, request, parts);
    return NO_ANSWER;
  }
  const answer = subscription.recordAnswer(request.responseNonce, request.nack, nowMs);
  variant.resubscribe(subscription, before, request, answer, parts);
  return answer;
}

/**
 * The response that updates the proxy to `parts`, recorded as sent. Undefined if no response is needed: the proxy then
 * counts as having `parts`. Must not be called while a response is outstanding.
 */
export function respond<Request extends AnyRequest>(
  variant: Variant<Request>,
  subscription: Subscription,
  parts: readonly Bundle[],
  context: ResponseContext,
): ResponseMessage | undefined {
  const { interest } = subscription;
  if (interest === undefined) return undefined;
  const removes = variant.removalPolicy(subscription.type, context.removes);
  for (;;) {
    const plan = subscription.plan(interest, parts, removes);
    const needed = plan.ofSearch !== true && (subscription.responseRequired || variant.removesAny(subscription, plan));
    if (needed || plan.changed.length > 0) {
      const { message, plan: sent, full } = variant.encode(subscription, interest, plan, context);
      subscription.recordSent(context.nonce, sent, context.snapshot, full);
      return message;
    }
    subscription.recordSkipped(plan);
    // The resources that were to be tried next, or the portion of names, no longer exist: continue with the next ones.
    if (plan.ofSearch !== true && !subscription.hasMore) return undefined;
  }
}
