/**
 * The state of the world variant: each request names all resources of a type that the proxy subscribes to. A response
 * for clusters or listeners contains all of them; a response for any other type contains only the changed resources.
 * Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol (sections "ACK/NACK and resource type
 * instance version", "Resource updates", "How the client specifies what resources to return")
 */
import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { Bundle, EncodedResource } from '../../push/index.ts';
import {
  type ClientState,
  EMPTY_STATE,
  findResource,
  type KnownResource,
  knownResource,
  NO_EXCEPTIONS,
} from './client-state.ts';
import type { Answer } from './inflight.ts';
import { covers, type Interest, WILDCARD, withoutWildcard } from './interest.ts';
import type { NameSet } from './name-set.ts';
import { bodyOf, type Plan } from './plans/plan.ts';
import { REMOVE_ALL, type RemovalPolicy } from './plans/removal-policy.ts';
import type { SotwRequest } from './requests.ts';
import { chunked } from './selection.ts';
import type { SharedResults } from './shared-results.ts';
import type { Subscription } from './subscription.ts';
import { absentEndpoints, lastEndpoints } from './unanswered/absent-endpoints.ts';
import type { EncodedPlan, ResponseContext, Variant } from './variant.ts';

/**
 * A full set removes everything it does not contain, including resources that the proxy holds in a version that cannot
 * be sent.
 */
function withKnownBytes(state: ClientState): ClientState {
  if (state.overlay.size === 0) return state;
  const overlay = new Map<string, KnownResource | undefined>();
  for (const [name, known] of state.overlay) {
    const resource = known?.resource;
    const kept = resource === undefined ? undefined : { version: resource.version, resource };
    if (kept !== undefined || findResource(state.bases, name) !== undefined) overlay.set(name, kept);
  }
  return { bases: state.bases, overlay };
}

/** All resources of the set: the bundles' shared bodies where they can be used unchanged. */
function fullBody(next: ClientState, interest: Interest): readonly Uint8Array[] {
  const replaced = [...next.overlay.keys()].some((name) => findResource(next.bases, name) !== undefined);
  const kept: EncodedResource[] = [];
  if (interest.wildcard && !replaced) {
    for (const known of next.overlay.values()) if (known?.resource !== undefined) kept.push(known.resource);
    return [...next.bases.flatMap((bundle) => bundle.sotwBody()), ...chunked(kept, 'sotw')];
  }
  const names = interest.wildcard
    ? [...next.bases.flatMap((bundle) => bundle.resources().map(({ name }) => name)), ...next.overlay.keys()]
    : interest.names.sorted();
  for (const name of new Set(names)) {
    const known = covers(interest, name) ? knownResource(next, name) : undefined;
    if (known?.resource !== undefined) kept.push(known.resource);
  }
  return chunked(kept, 'sotw');
}

export class SotwProtocol implements Variant<SotwRequest> {
  readonly mode = 'sotw';
  readonly shared: SharedResults;

  constructor(shared: SharedResults) {
    this.shared = shared;
  }

  resubscribe(subscription: Subscription, before: Interest, request: SotwRequest, answer: Answer): void {
    // A stale request was written before the last response was read; after reading that response, the proxy sends the
    // whole request again.
    if (answer.kind === 'stale') return;
    const interest = this.#interestOf(subscription, request.names);
    if (interest === before) return;
    subscription.subscribe(interest);
    if (!before.wildcard) subscription.force(this.shared.names.outside(interest.names, before.names), before);
    // The version is a hash of the set that the proxy has: it has to change when the set shrinks, or the proxy could
    // reconnect with the version of a set that it no longer has in full. Names without a resource are not part of the
    // version, unless the resource was removed without a response.
    const { next } = subscription.inflight ?? { next: subscription.state };
    if (!interest.wildcard)
      for (const name of this.shared.names.outside(before.names, interest.names).names)
        if (subscription.versionBehind || knownResource(next, name) !== undefined) subscription.responseRequired = true;
  }

  /**
   * The first request of a type. After a reconnect it has the version of the proxy's resources. The version is a hash
   * of their content, so that another process also recognizes a proxy that is up to date, and sends nothing.
   */
  subscribe(subscription: Subscription, request: SotwRequest, parts: readonly Bundle[]): void {
    const interest = this.#interestOf(subscription, request.names);
    subscription.subscribe(interest);
    const current: ClientState = { bases: parts, overlay: NO_EXCEPTIONS };
    // A proxy that connects again may use endpoints that do not exist any more, until it has other clusters.
    subscription.reportsMissing = subscription.type === 'eds' && request.versionInfo === '';
    if (request.versionInfo !== '' && request.versionInfo === this.shared.versions.of(current, interest, EMPTY_STATE))
      subscription.resume(current);
    else subscription.responseRequired = interest.wildcard || interest.names.size > 0;
  }

  removalPolicy(type: XdsType, unreferenced: RemovalPolicy): RemovalPolicy {
    // Only full sets can remove something.
    return XDS[type].fullSet && !XDS[type].unreferenced ? unreferenced : REMOVE_ALL;
  }

  removesAny(subscription: Subscription, plan: Plan): boolean {
    if (!XDS[subscription.type].fullSet) return absentEndpoints(subscription, plan).length > 0;
    // A name without a resource needs no removal.
    return plan.removed.some((name) => subscription.known(name) !== undefined);
  }

  encode(subscription: Subscription, interest: Interest, plan: Plan, context: ResponseContext): EncodedPlan {
    const { fullSet, url } = XDS[subscription.type];
    const next = fullSet ? withKnownBytes(plan.next) : plan.next;
    const version = this.shared.versions.of(next, interest, subscription.state);
    const absent = absentEndpoints(subscription, plan).map((name) => lastEndpoints(subscription, name));
    const body = fullSet ? fullBody(next, interest) : [...bodyOf(plan, 'sotw'), ...chunked(absent, 'sotw')];
    // A response that is not a full set cannot remove resources.
    const same = next === plan.next && (fullSet || plan.removed.length === 0);
    return {
      message: { typeUrl: url, version, nonce: context.nonce, removed: [], body },
      plan: same ? plan : { ...plan, next, removed: fullSet ? plan.removed : [] },
      full: fullSet,
    };
  }

  /** The interest of the names of a request; the same object while it is unchanged. */
  #interestOf(subscription: Subscription, names: NameSet): Interest {
    const before = subscription.interest;
    const first = before === undefined;
    const legacy = names.size === 0 && XDS[subscription.type].fullSet && (first || subscription.legacyWildcard);
    subscription.legacyWildcard = legacy;
    const wildcard = !subscription.namesOnly && (legacy || names.has(WILDCARD));
    const set = withoutWildcard(names, this.shared.names);
    return before !== undefined && before.names === set && before.wildcard === wildcard
      ? before
      : { wildcard, names: set };
  }
}
