/**
 * Delta (incremental): requests add and drop names, responses hold what changed and name what is gone.
 * Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds and
 * envoy/service/discovery/v3/discovery.proto (DeltaDiscoveryRequest)
 *
 * Responses are not split, however large: an Envoy takes its first response of a type as the whole of it (it ends its
 * initialisation, lets clusters go that were not in it), its client has no receive limit, and the bytes are shared by
 * all streams and written in slices anyway.
 */

import { CtlError } from '../../core/errors.ts';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { Bundle } from '../../push/types.ts';
import { type Interest, MAX_SUBSCRIBED_NAMES, WILDCARD, withoutWildcard } from './interest.ts';
import { bodyOf, type Plan } from './plan.ts';
import { REMOVE_ALL, type RemovalPolicy } from './removal-policy.ts';
import type { DeltaRequest } from './requests.ts';
import { foreign, NO_DEVIATIONS, shown } from './resume.ts';
import type { SharedResults } from './shared-results.ts';
import type { Answer, Subscription } from './subscription.ts';
import type { EncodedPlan, ResponseContext, Variant } from './variant.ts';

export class DeltaProtocol implements Variant<DeltaRequest> {
  readonly mode = 'delta';
  readonly shared: SharedResults;

  constructor(shared: SharedResults) {
    this.shared = shared;
  }

  resubscribe(
    subscription: Subscription,
    before: Interest,
    request: DeltaRequest,
    _answer: Answer,
    parts: readonly Bundle[],
  ): void {
    // Virtual hosts were sent before the proxy asked for them: this is its first request all the same.
    if (request.initialVersions.size > 0) subscription.alsoHas(foreign(request.initialVersions, parts));
    // Changes of the subscription count even when the nonce is stale: the proxy does not repeat them.
    if (request.subscribe.size > 0 || request.unsubscribe.size > 0) this.#change(subscription, before, request);
  }

  #change(subscription: Subscription, before: Interest, request: DeltaRequest): void {
    const added = withoutWildcard(request.subscribe, this.shared.names);
    const dropped = withoutWildcard(request.unsubscribe, this.shared.names);
    const names = this.shared.names.change(before.names, added, dropped);
    if (names.size > MAX_SUBSCRIBED_NAMES)
      throw new CtlError(
        'invalid_argument',
        `a stream may subscribe to at most ${MAX_SUBSCRIBED_NAMES} names of a type`,
      );
    const wildcard = (before.wildcard || request.subscribe.has(WILDCARD)) && !request.unsubscribe.has(WILDCARD);
    subscription.subscribe(names === before.names && wildcard === before.wildcard ? before : { wildcard, names });
    for (const name of dropped.names) {
      subscription.owed.delete(name);
      // Still wanted as part of the wildcard: the proxy dropped its copy and is told what there is.
      if (wildcard && before.names.has(name)) subscription.owed.add(name);
    }
    subscription.owe(added.names, before);
    if (request.subscribe.has(WILDCARD)) subscription.mustAnswer = true;
  }

  /** First request of a type, maybe with the versions that the proxy kept over a reconnect. */
  subscribe(subscription: Subscription, request: DeltaRequest, parts: readonly Bundle[]): void {
    const legacy = request.subscribe.size === 0 && XDS[subscription.type].wildcard;
    subscription.legacyWildcard = legacy;
    const wildcard = (legacy || request.subscribe.has(WILDCARD)) && !request.unsubscribe.has(WILDCARD);
    const names = withoutWildcard(request.subscribe, this.shared.names);
    subscription.subscribe({ wildcard, names });
    if (request.initialVersions.size === 0) {
      // An empty answer also ends the wait of a proxy for which there is nothing.
      subscription.mustAnswer = wildcard;
      return;
    }
    const missing = this.shared.comparisons.outdated(names, request.initialVersions, parts);
    const overlay = wildcard
      ? this.shared.comparisons.deviations(request.initialVersions, parts)
      : missing.length > 0
        ? shown(missing, request.initialVersions)
        : NO_DEVIATIONS;
    subscription.have = { bases: parts, overlay };
    for (const name of missing) subscription.owed.add(name);
    if (missing.length === 0 && overlay.size === 0) subscription.resumed(subscription.have);
  }

  removalPolicy(type: XdsType, unreferenced: RemovalPolicy): RemovalPolicy {
    return XDS[type].unreferenced ? REMOVE_ALL : unreferenced;
  }

  removesAny(_subscription: Subscription, plan: Plan): boolean {
    return plan.removed.length > 0;
  }

  encode(subscription: Subscription, _interest: Interest, plan: Plan, context: ResponseContext): EncodedPlan {
    const message = {
      typeUrl: XDS[subscription.type].url,
      version: String(context.snapshot),
      nonce: context.nonce,
      removed: plan.removed,
      body: bodyOf(plan, 'delta'),
    };
    return { message, plan };
  }
}
