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
import { XDS } from '../../core/xds-types.ts';
import type { Bundle } from '../../push/types.ts';
import { bodyOf } from './plan.ts';
import { MAX_SUBSCRIBED_NAMES, type Protocol, type ResponseContext, WILDCARD, withoutWildcard } from './protocol.ts';
import { ALL_GO } from './removes.ts';
import type { DeltaRequest } from './requests.ts';
import type { ResponseMessage } from './responses.ts';
import { foreign, NO_DEVIATIONS, shown } from './resume.ts';
import type { Interest } from './selection.ts';
import type { SharedResults } from './shared-results.ts';
import type { Answer, Subscription } from './subscription.ts';

export class DeltaProtocol implements Protocol<DeltaRequest> {
  readonly mode = 'delta';
  readonly shared: SharedResults;

  constructor(shared: SharedResults) {
    this.shared = shared;
  }

  nonceOf(request: DeltaRequest): string {
    return request.responseNonce;
  }

  receive(subscription: Subscription, request: DeltaRequest, parts: readonly Bundle[], nowMs: number): Answer {
    if (subscription.interest === undefined) {
      this.#start(subscription, request, parts);
      return { kind: 'none', changed: [], quarantined: [] };
    }
    // It was sent what it had not asked for yet; this is its first request all the same.
    if (request.initialVersions.size > 0) subscription.alsoHas(foreign(request.initialVersions, parts));
    const answer = subscription.answered(request.responseNonce, request.nack, nowMs);
    // Changes of the subscription count whatever the nonce: they are not said again.
    if (request.subscribe.size > 0 || request.unsubscribe.size > 0)
      this.#change(subscription, subscription.interest, request);
    return answer;
  }

  #change(subscription: Subscription, before: Interest, request: DeltaRequest): void {
    const added = withoutWildcard(request.subscribe, this.shared);
    const dropped = withoutWildcard(request.unsubscribe, this.shared);
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
  #start(subscription: Subscription, request: DeltaRequest, parts: readonly Bundle[]): void {
    const legacy = request.subscribe.size === 0 && XDS[subscription.type].wildcard;
    subscription.legacyWildcard = legacy;
    const wildcard = (legacy || request.subscribe.has(WILDCARD)) && !request.unsubscribe.has(WILDCARD);
    const names = withoutWildcard(request.subscribe, this.shared);
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

  respond(subscription: Subscription, parts: readonly Bundle[], context: ResponseContext): ResponseMessage | undefined {
    const { interest } = subscription;
    if (interest === undefined) return undefined;
    const removes = XDS[subscription.type].unreferenced ? ALL_GO : context.removes;
    for (;;) {
      const plan = subscription.plan(interest, parts, removes);
      if (subscription.mustAnswer || plan.changed.length > 0 || plan.removed.length > 0) {
        subscription.sent(context.nonce, plan, context.snapshot);
        return {
          typeUrl: XDS[subscription.type].url,
          version: String(context.snapshot),
          nonce: context.nonce,
          removed: plan.removed,
          body: bodyOf(plan, 'delta'),
        };
      }
      subscription.skipped(plan);
      if (!subscription.rejections.searching) return undefined;
      // What was to be tried next is gone by now: on to the next group in doubt.
      subscription.rejections.acknowledged();
    }
  }
}
