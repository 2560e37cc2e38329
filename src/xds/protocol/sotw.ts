/**
 * State of the world: each request names all resources of a type that the proxy wants; responses about clusters and
 * listeners hold all of them, the others only what changed. Source:
 * https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol (sections "ACK/NACK and resource type instance
 * version", "Resource updates", "How the client specifies what resources to return")
 */
import { XDS } from '../../core/xds-types.ts';
import type { Bundle, EncodedResource } from '../../push/types.ts';
import { findIn, HAS_NOTHING, type Have, type Held, heldOf } from './client-state.ts';
import type { NameSet } from './name-set.ts';
import { bodyOf } from './plan.ts';
import { type Protocol, type ResponseContext, WILDCARD, withoutWildcard } from './protocol.ts';
import { ALL_GO } from './removes.ts';
import type { SotwRequest } from './requests.ts';
import type { ResponseMessage } from './responses.ts';
import { chunked, covers, type Interest } from './selection.ts';
import type { SharedResults } from './shared-results.ts';
import type { Answer, Subscription } from './subscription.ts';

/** A full set takes away what is not in it, and so what the proxy has in a version that we cannot send. */
function knownOnly(have: Have): Have {
  if (have.overlay.size === 0) return have;
  const overlay = new Map<string, Held | undefined>();
  for (const [name, held] of have.overlay) {
    const resource = held?.resource;
    const kept = resource === undefined ? undefined : { version: resource.version, resource };
    if (kept !== undefined || findIn(have.bases, name) !== undefined) overlay.set(name, kept);
  }
  return { bases: have.bases, overlay };
}

/**
 * All resources of the set that the proxy is to have: the bundles' shared bodies where they can be used as they are.
 */
function fullBody(next: Have, interest: Interest): readonly Uint8Array[] {
  const replaced = [...next.overlay.keys()].some((name) => findIn(next.bases, name) !== undefined);
  const kept: EncodedResource[] = [];
  if (interest.wildcard && !replaced) {
    for (const held of next.overlay.values()) if (held?.resource !== undefined) kept.push(held.resource);
    return [...next.bases.flatMap((bundle) => bundle.sotwBody()), ...chunked(kept, 'sotw')];
  }
  const names = interest.wildcard
    ? [...next.bases.flatMap((bundle) => bundle.resources().map(({ name }) => name)), ...next.overlay.keys()]
    : interest.names.names;
  for (const name of new Set(names)) {
    const held = covers(interest, name) ? heldOf(next, name) : undefined;
    if (held?.resource !== undefined) kept.push(held.resource);
  }
  return chunked(kept, 'sotw');
}

export class SotwProtocol implements Protocol<SotwRequest> {
  readonly mode = 'sotw';
  readonly shared: SharedResults;

  constructor(shared: SharedResults) {
    this.shared = shared;
  }

  nonceOf(request: SotwRequest): string {
    return request.responseNonce;
  }

  receive(subscription: Subscription, request: SotwRequest, parts: readonly Bundle[], nowMs: number): Answer {
    const before = subscription.interest;
    if (before === undefined) {
      this.#start(subscription, request, parts);
      return { kind: 'none', changed: [], quarantined: [] };
    }
    const answer = subscription.answered(request.responseNonce, request.nack, nowMs);
    // A stale request was written before the last response was read; the proxy says everything again after it.
    if (answer.kind === 'stale') return answer;
    const interest = this.#interestOf(subscription, request.names);
    if (interest === before) return answer;
    subscription.subscribe(interest);
    if (!before.wildcard) subscription.owe(this.shared.names.outside(interest.names, before.names).names, before);
    // The version is about the set that the proxy has: it has to change when the set gets smaller, or the proxy could
    // come back with a version that promises what it dropped. What that set was without is not in its version, whatever
    // there is by now, unless it has gone without a response.
    const { next } = subscription.inflight ?? { next: subscription.have };
    if (!interest.wildcard)
      for (const name of this.shared.names.outside(before.names, interest.names).names)
        if (subscription.versionBehind || heldOf(next, name) !== undefined) subscription.mustAnswer = true;
    return answer;
  }

  /**
   * First request of a type. On a reconnect it carries the version that the proxy has; it is a hash of content, so that
   * a proxy that is up to date is recognised also by another process, and is sent nothing.
   */
  #start(subscription: Subscription, request: SotwRequest, parts: readonly Bundle[]): void {
    const interest = this.#interestOf(subscription, request.names);
    subscription.subscribe(interest);
    const current: Have = { bases: parts, overlay: new Map() };
    if (request.versionInfo !== '' && request.versionInfo === this.shared.versions.of(current, interest, HAS_NOTHING))
      subscription.resumed(current);
    else subscription.mustAnswer = interest.wildcard || interest.names.size > 0;
  }

  respond(subscription: Subscription, parts: readonly Bundle[], context: ResponseContext): ResponseMessage | undefined {
    const { interest } = subscription;
    if (interest === undefined) return undefined;
    const { fullSet: full, unreferenced } = XDS[subscription.type];
    // Only full sets can remove something.
    const removes = full && !unreferenced ? context.removes : ALL_GO;
    for (;;) {
      const plan = subscription.plan(interest, parts, removes);
      // Names that never existed are nothing to take away.
      const shrinks = full && plan.removed.some((name) => subscription.held(name) !== undefined);
      const needed = subscription.mustAnswer || plan.changed.length > 0 || shrinks;
      if (needed) {
        const next = full ? knownOnly(plan.next) : plan.next;
        const version = this.shared.versions.of(next, interest, subscription.have);
        const body = full ? fullBody(next, interest) : bodyOf(plan, 'sotw');
        // A response that is not a full set takes nothing away.
        const same = next === plan.next && (full || plan.removed.length === 0);
        const sent = same ? plan : { ...plan, next, removed: full ? plan.removed : [] };
        subscription.sent(context.nonce, sent, context.snapshot);
        return { typeUrl: XDS[subscription.type].url, version, nonce: context.nonce, removed: [], body };
      }
      if (!full && plan.removed.some((name) => subscription.held(name) !== undefined))
        subscription.versionBehind = true;
      subscription.skipped(plan);
      if (!subscription.rejections.searching) return undefined;
      // What was to be tried next is gone by now: on to the next group in doubt.
      subscription.rejections.acknowledged();
    }
  }

  /** The interest that the names of a request mean; the same object while nothing changes. */
  #interestOf(subscription: Subscription, names: NameSet): Interest {
    const before = subscription.interest;
    const first = before === undefined;
    const legacy = names.size === 0 && XDS[subscription.type].fullSet && (first || subscription.legacyWildcard);
    subscription.legacyWildcard = legacy;
    const wildcard = legacy || names.has(WILDCARD);
    const set = withoutWildcard(names, this.shared);
    return before !== undefined && before.names === set && before.wildcard === wildcard
      ? before
      : { wildcard, names: set };
  }
}
