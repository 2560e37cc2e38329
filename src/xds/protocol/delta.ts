/**
 * The Delta (incremental) variant: requests add and remove names, responses contain changed resources and the names of
 * removed ones. Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds and
 * envoy/service/discovery/v3/discovery.proto (DeltaDiscoveryRequest)
 *
 * Responses are not split, however large: Envoy treats its first response of a type as complete (it ends its
 * initialization and removes clusters that were not in it), its client has no receive limit, and the bytes are shared
 * by all streams and written in slices anyway.
 */

import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { Bundle } from '../../push/index.ts';
import type { Answer } from './inflight.ts';
import { type Interest, limitNames, WILDCARD, withoutWildcard } from './interest.ts';
import { bodyOf, type Plan } from './plans/plan.ts';
import { REMOVE_ALL, type RemovalPolicy } from './plans/removal-policy.ts';
import type { DeltaRequest } from './requests.ts';
import { NO_DIFFERENCES, reportedResources, resourcesOutside } from './resume.ts';
import type { SharedResults } from './shared-results.ts';
import type { Subscription } from './subscription.ts';
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
    // Virtual hosts are sent before the proxy subscribes to them: this may be the proxy's first request of the type.
    if (request.initialVersions.size > 0) {
      subscription.addKnown(resourcesOutside(request.initialVersions, parts));
      limitNames(subscription.reported);
    }
    // Changes of the subscription count even when the nonce is stale: the proxy does not repeat them.
    if (request.subscribe.size > 0 || request.unsubscribe.size > 0) this.#change(subscription, before, request);
  }

  #change(subscription: Subscription, before: Interest, request: DeltaRequest): void {
    const added = withoutWildcard(request.subscribe, this.shared.names);
    const dropped = withoutWildcard(request.unsubscribe, this.shared.names);
    const names = this.shared.names.change(before.names, added, dropped);
    limitNames(names.size);
    const wildcard =
      !subscription.namesOnly &&
      (before.wildcard || request.subscribe.has(WILDCARD)) &&
      !request.unsubscribe.has(WILDCARD);
    subscription.subscribe(names === before.names && wildcard === before.wildcard ? before : { wildcard, names });
    for (const name of dropped.names) {
      subscription.forced.delete(name);
      // The wildcard still covers the name: the proxy has dropped its copy and needs it again.
      if (wildcard && before.names.has(name)) subscription.forced.add(name);
    }
    subscription.force(added, before);
    if (request.subscribe.has(WILDCARD)) subscription.responseRequired = true;
  }

  /** Handles the first request of a type; after a reconnect it has the versions that the proxy has. */
  subscribe(subscription: Subscription, request: DeltaRequest, parts: readonly Bundle[]): void {
    const legacy = request.subscribe.size === 0 && XDS[subscription.type].wildcard;
    subscription.legacyWildcard = legacy;
    subscription.reportsMissing = true;
    const wildcard =
      !subscription.namesOnly && (legacy || request.subscribe.has(WILDCARD)) && !request.unsubscribe.has(WILDCARD);
    const names = withoutWildcard(request.subscribe, this.shared.names);
    subscription.subscribe({ wildcard, names });
    if (request.initialVersions.size === 0) {
      // A proxy without resources waits too, until it gets an empty response.
      subscription.responseRequired = wildcard;
      return;
    }
    subscription.reported = this.shared.comparisons.unknown(request.initialVersions, parts);
    const missing = this.shared.comparisons.outdated(names, request.initialVersions, parts);
    const overlay = wildcard
      ? this.shared.comparisons.differences(request.initialVersions, parts)
      : missing.length > 0
        ? reportedResources(missing, request.initialVersions, parts)
        : NO_DIFFERENCES;
    subscription.state = { bases: parts, overlay };
    subscription.outdated(missing, parts);
    if (missing.length === 0 && overlay.size === 0) subscription.resume(subscription.state);
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
    return { message, plan, full: false };
  }
}
