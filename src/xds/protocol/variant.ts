/**
 * The interface of the two protocol variants, state of the world and Delta: how a request changes a subscription, and
 * how a plan becomes a response. `driver.ts` has the part that both share.
 */
import type { XdsType } from '../../core/xds-types.ts';
import type { Bundle } from '../../push/index.ts';
import type { Answer } from './inflight.ts';
import type { Interest } from './interest.ts';
import type { Plan } from './plans/plan.ts';
import type { RemovalPolicy } from './plans/removal-policy.ts';
import type { AnyRequest } from './requests.ts';
import type { Mode, ResponseMessage } from './responses.ts';
import type { SharedResults } from './shared-results.ts';
import type { Subscription } from './subscription.ts';

/** The nonce, snapshot and removal policy of a response. */
export interface ResponseContext {
  readonly nonce: string;
  /** Version of the snapshot that the parts belong to. */
  readonly snapshot: number;
  /** Which resources that no longer exist may be removed now, because no resource refers to them any more. */
  readonly removes: RemovalPolicy;
}

export interface EncodedPlan {
  readonly message: ResponseMessage;
  /** The part of the plan that the message expresses: a variant cannot express every plan. */
  readonly plan: Plan;
  /** The message replaces everything that the proxy has. */
  readonly full: boolean;
}

export interface Variant<Request extends AnyRequest> {
  readonly mode: Mode;
  /** Results that the streams of a server share. */
  readonly shared: SharedResults;
  /** Takes the first request of a type. Throws CtlError invalid_argument when it subscribes to too much. */
  subscribe(subscription: Subscription, request: Request, parts: readonly Bundle[]): void;
  /**
   * Takes a later request of a type. Its nonce and error have been processed already, with the result `answer`. Throws
   * CtlError invalid_argument when it subscribes to too much.
   */
  resubscribe(
    subscription: Subscription,
    before: Interest,
    request: Request,
    answer: Answer,
    parts: readonly Bundle[],
  ): void;
  /**
   * Which resources a response of the type may remove. `unreferenced` selects the resources that no other resource
   * refers to.
   */
  removalPolicy(type: XdsType, unreferenced: RemovalPolicy): RemovalPolicy;
  /** Whether a response is needed for what the plan removes. */
  removesAny(subscription: Subscription, plan: Plan): boolean;
  encode(subscription: Subscription, interest: Interest, plan: Plan, context: ResponseContext): EncodedPlan;
}
