/**
 * The state of one resource type on one stream: what the proxy subscribes to, what it has, and the response that it has
 * not answered yet. The same for both variants of the protocol; there is no I/O.
 *
 * The parts of a type have to be disjoint: no name is in two of them.
 */
import type { XdsType } from '../../core/xds-types.ts';
import type { Bundle, EncodedResource, TypeStatus } from '../../push/index.ts';
import {
  type ClientState,
  EMPTY_STATE,
  findResource,
  type KnownResource,
  knownResource,
  limitedTo,
  sameBundles,
  sameViews,
  UNKNOWN_VERSION,
  withoutNames,
  withResources,
  withUnknownVersions,
} from './client-state.ts';
import { covers, type Interest } from './interest.ts';
import { NONE_DEFERRED, type Plan, type Plans } from './plan.ts';
import { Rejections } from './rejection.ts';
import { REMOVE_ALL, type RemovalPolicy } from './removal-policy.ts';
import { ResourceLists } from './selection.ts';

/** A response that has not been acknowledged. */
export interface Inflight {
  readonly nonce: string;
  /** The state of the proxy once it acknowledges. */
  next: ClientState;
  readonly changed: ResourceLists;
  /** Names that the response removed. */
  readonly removed: readonly string[];
  readonly forced: ReadonlySet<string>;
  readonly responseRequired: boolean;
  readonly snapshot: number;
}

/** The meaning of the nonce and error of a request. */
export interface Answer {
  readonly kind: 'none' | 'ack' | 'nack' | 'stale';
  /** NACK: resources of the response that was answered. */
  readonly changed: readonly EncodedResource[];
  /** NACK: names that are kept back from now on. */
  readonly quarantined: readonly string[];
}

export const NO_ANSWER: Answer = { kind: 'none', changed: [], quarantined: [] };
const ACKED: Answer = { ...NO_ANSWER, kind: 'ack' };

export class Subscription {
  readonly type: XdsType;
  /** Undefined until the first request of the type. */
  interest: Interest | undefined;
  /** The first request named no resource, which means all of them. */
  legacyWildcard = false;
  /** Only names are answered: requests for all resources get none. */
  namesOnly = false;
  state: ClientState = EMPTY_STATE;
  /**
   * Names that the next response must contain even if the proxy has their current version: subscribed to just now or
   * again, or waited for by Envoy (the endpoints of a changed cluster).
   */
  forced = new Set<string>();
  /** The proxy waits for a response, even an empty one. */
  responseRequired = false;
  inflight: Inflight | undefined;
  /** SotW: resources were removed without a response since the proxy acknowledged a version. */
  versionBehind = false;
  readonly rejections = new Rejections();
  readonly #plans: Plans;
  /** Names whose version is not known: a proxy may have applied a part of a response that it rejected. */
  readonly #uncertain = new Set<string>();

  #sentNonce = '';
  #ackedNonce = '';
  #nackedNonce = '';
  #removalNonce = '';
  #sentSnapshot = 0;
  #ackedSnapshot = 0;
  #completeSnapshot = 0;
  /** The proxy was found to be up to date without being sent anything. */
  #current = false;
  #lastNack: TypeStatus['lastNack'];
  #messages = 0;
  #bytes = 0;

  constructor(type: XdsType, plans: Plans) {
    this.type = type;
    this.#plans = plans;
  }

  get lastNonce(): string {
    return this.#sentNonce;
  }

  /** Nothing is outstanding and the proxy has these parts, except for quarantined resources and removals. */
  settled(parts: readonly Bundle[]): boolean {
    if (this.interest === undefined) return true;
    if (this.inflight !== undefined || this.forced.size > 0 || this.responseRequired || this.rejections.searching)
      return false;
    if (!sameBundles(this.state.bases, parts)) return false;
    if (this.state.overlay.size === 0) return true;
    for (const name of this.state.overlay.keys())
      if (!this.rejections.quarantined.has(name) && findResource(parts, name) !== undefined) return false;
    return true;
  }

  /** Settled, and nothing is left to remove of what `removes` lets be removed. */
  complete(parts: readonly Bundle[], removes: RemovalPolicy = REMOVE_ALL): boolean {
    if (!this.settled(parts)) return false;
    if (this.state.overlay.size === 0) return true;
    for (const name of this.state.overlay.keys())
      if (!this.rejections.quarantined.has(name) && removes(name)) return false;
    return true;
  }

  /**
   * There is nothing to compute for these parts: the proxy has exactly them, without exceptions, or has not subscribed.
   * This implies {@link complete}, and stays true until a request comes or the parts change.
   */
  upToDate(parts: readonly Bundle[]): boolean {
    if (this.interest === undefined) return true;
    return (
      this.inflight === undefined &&
      sameBundles(this.state.bases, parts) &&
      this.state.overlay.size === 0 &&
      this.#uncertain.size === 0 &&
      this.forced.size === 0 &&
      !this.responseRequired &&
      this.rejections.empty
    );
  }

  /** Records a response as sent. */
  recordSent(nonce: string, plan: Plan, snapshot: number): void {
    this.inflight = {
      nonce,
      next: plan.next,
      changed: plan.changed,
      removed: plan.removed,
      forced: this.forced.size === 0 ? NONE_DEFERRED : this.forced,
      responseRequired: this.responseRequired,
      snapshot,
    };
    this.#defer(plan);
    this.responseRequired = false;
    this.#sentNonce = nonce;
    this.#sentSnapshot = snapshot;
  }

  /** Counts bytes on the wire, for the status. */
  countBytes(bytes: number): void {
    this.#messages++;
    this.#bytes += bytes;
  }

  /** Records the nonce and error of a request. */
  recordAnswer(nonce: string, nack: string | undefined, nowMs: number): Answer {
    if (nonce === '' || nonce === this.#removalNonce) return NO_ANSWER;
    const inflight = this.inflight;
    if (inflight === undefined) return nonce === this.#sentNonce ? NO_ANSWER : { ...NO_ANSWER, kind: 'stale' };
    if (nonce !== inflight.nonce) return { ...NO_ANSWER, kind: 'stale' };
    this.inflight = undefined;
    if (nack === undefined) {
      this.setState(inflight.next);
      this.rejections.acknowledged();
      this.versionBehind = false;
      this.#ackedNonce = nonce;
      this.#ackedSnapshot = inflight.snapshot;
      if (this.rejections.empty) this.#completeSnapshot = inflight.snapshot;
      return ACKED;
    }
    this.#nackedNonce = nonce;
    const changed = inflight.changed.flat();
    const quarantined = this.rejections.rejected(nack, changed);
    this.#lastNack = {
      message: nack,
      atMs: nowMs,
      resources: quarantined.length > 0 ? quarantined : changed.map(({ name }) => name),
    };
    this.#afterNack(inflight, changed, quarantined);
    return { kind: 'nack', changed, quarantined };
  }

  /**
   * All but the rejected resources are sent again: Envoy may have applied the others, but does not record their
   * versions as received, and so would be sent them when it reconnects.
   */
  #afterNack(inflight: Inflight, changed: readonly EncodedResource[], quarantined: readonly string[]): void {
    // A rejected removal cannot be quarantined name by name, and would be rejected again.
    if (changed.length === 0) {
      this.setState(inflight.next);
      return;
    }
    // Of a rejected resource the proxy keeps the version it had, which may be uncertain since an earlier rejection.
    const rejected = new Set(quarantined);
    for (const { name } of changed) if (!rejected.has(name)) this.#uncertain.add(name);
    for (const name of inflight.removed) if (knownResource(this.state, name) !== undefined) this.#uncertain.add(name);
    for (const name of inflight.forced) this.forced.add(name);
    this.responseRequired ||= inflight.responseRequired;
  }

  /** Records a response that only removes resources, which are sent again after it; its answer is ignored. */
  recordRemoval(nonce: string, removed: readonly string[]): void {
    this.#removalNonce = nonce;
    this.forgetVersions(removed);
  }

  /** The proxy may have lost the resources with these names that it had or was sent. */
  forgetVersions(names: readonly string[]): void {
    this.state = withUnknownVersions(this.state, names);
    if (this.inflight !== undefined) this.inflight.next = withUnknownVersions(this.inflight.next, names);
  }

  /** The proxy may have recorded the resource as received. */
  mayHave(name: string): boolean {
    return (
      this.known(name) !== undefined ||
      (this.inflight !== undefined && knownResource(this.inflight.next, name) !== undefined)
    );
  }

  /**
   * Starts over, as if the proxy had not subscribed and had been sent nothing.
   * @returns names in the response that is outstanding
   */
  reset(): readonly string[] {
    const sent = this.inflight?.changed.flat().map(({ name }) => name) ?? [];
    this.interest = undefined;
    this.inflight = undefined;
    this.forced = new Set();
    this.responseRequired = false;
    this.setState(EMPTY_STATE);
    return sent;
  }

  /** The proxy may have applied some version of these names. */
  markUncertain(names: readonly string[]): void {
    for (const name of names) this.#uncertain.add(name);
  }

  /** Records that the plan needs no response. */
  recordSkipped(plan: Plan): void {
    if (plan.removed.some((name) => this.known(name) !== undefined)) this.versionBehind = true;
    this.resume(plan.next);
    this.#defer(plan);
  }

  /** Forced names were answered by the plan, except for those that it defers. */
  #defer({ deferred }: Plan): void {
    if (this.forced.size > 0 || deferred.size > 0) this.forced = new Set(deferred);
  }

  /** The proxy was found to have this state, without being sent anything. */
  resume(state: ClientState): void {
    this.#current = true;
    this.setState(state);
  }

  setState(state: ClientState): void {
    this.state = state;
    if (this.#uncertain.size > 0) this.#uncertain.clear();
  }

  /** The version that the proxy has of a name, as far as is known. */
  known(name: string): KnownResource | undefined {
    const known = knownResource(this.state, name);
    return this.#uncertain.has(name) ? { version: UNKNOWN_VERSION, resource: known?.resource } : known;
  }

  /**
   * Changes what the proxy subscribes to. It has nothing of what it did not subscribe to before, whatever the bundles
   * have: added names have to be given to {@link force}; a new wildcard is handled here.
   */
  subscribe(interest: Interest): void {
    const before = this.interest;
    this.interest = interest;
    if (before === undefined || before.wildcard || !interest.wildcard) return;
    this.responseRequired = true;
    this.state = limitedTo(this.state, before);
    if (this.inflight !== undefined) this.inflight.next = limitedTo(this.inflight.next, before);
  }

  /** The proxy has these resources too, of names that this stream neither sent nor will send. */
  addKnown(resources: ReadonlyMap<string, KnownResource>): void {
    if (resources.size === 0) return;
    this.state = withResources(this.state, resources);
    if (this.inflight !== undefined) this.inflight.next = withResources(this.inflight.next, resources);
  }

  /**
   * The next response must contain these names, which the proxy subscribes to now or again. It has nothing of them,
   * unless `before` had them by its wildcard.
   */
  force(names: Iterable<string>, before: Interest): void {
    const added = [...names];
    for (const name of added) this.forced.add(name);
    if (before.wildcard) return;
    this.state = withoutNames(this.state, added);
    if (this.inflight !== undefined) this.inflight.next = withoutNames(this.inflight.next, added);
  }

  /**
   * The plan of the next response. Resources that no longer exist are kept by the proxy as long as `removes` excludes
   * them.
   */
  plan(interest: Interest, parts: readonly Bundle[], removes: RemovalPolicy): Plan {
    const { state } = this;
    if (!this.rejections.empty) this.rejections.prune((name) => findResource(parts, name));
    const fresh = state === EMPTY_STATE;
    if (
      this.#uncertain.size === 0 &&
      this.forced.size === 0 &&
      state.overlay.size === 0 &&
      this.rejections.empty &&
      (fresh || sameViews(state.bases, parts))
    )
      return (
        (fresh ? undefined : this.#plans.step(state, interest, parts)) ??
        this.#plans.whole(state, interest, parts, removes, fresh)
      );
    return this.#planByName(interest, parts, removes, fresh);
  }

  #planByName(interest: Interest, parts: readonly Bundle[], removes: RemovalPolicy, fresh: boolean): Plan {
    const changed: EncodedResource[] = [];
    const removed: string[] = [];
    const overlay = new Map<string, KnownResource | undefined>();
    const deferred = new Set<string>();
    for (const name of this.#touched(interest, parts, fresh)) {
      if (!covers(interest, name)) continue;
      const now = findResource(parts, name);
      const known = this.known(name);
      const forced = this.forced.has(name);
      if (now === undefined) {
        if (forced || (fresh && interest.names.has(name)) || (known !== undefined && removes(name))) removed.push(name);
        else if (known !== undefined) overlay.set(name, known);
      } else if (forced || known?.version !== now.version) {
        if (!this.rejections.isHeldBack(name, now.version)) changed.push(now);
        else if (known?.version !== now.version) overlay.set(name, known);
        if (forced && this.rejections.waits(name, now.version)) deferred.add(name);
      }
    }
    return {
      changed: new ResourceLists([changed]),
      removed,
      next: { bases: parts, overlay },
      deferred,
      shared: undefined,
    };
  }

  /** Names whose version may differ between the proxy and the parts. */
  #touched(interest: Interest, parts: readonly Bundle[], fresh: boolean): Set<string> {
    const { state } = this;
    const names = new Set<string>(this.forced);
    for (const name of state.overlay.keys()) names.add(name);
    for (const name of this.#uncertain) names.add(name);
    if (fresh) for (const name of interest.names.names) names.add(name);
    if (sameViews(state.bases, parts)) {
      parts.forEach((bundle, index) => {
        if (bundle === state.bases[index]) return;
        const diff = bundle.diffFrom(state.bases[index]);
        for (const resource of diff.changed) names.add(resource.name);
        for (const name of diff.removed) names.add(name);
      });
      return names;
    }
    // The proxy has other views now (its labels changed, for one): every name of both sides is compared.
    for (const bundle of [...state.bases, ...parts]) for (const { name } of bundle.resources()) names.add(name);
    return names;
  }

  /** @param parts what the proxy should have */
  status(parts: readonly Bundle[]): TypeStatus {
    const { interest } = this;
    return {
      subscribed: interest === undefined ? 'none' : interest.wildcard ? 'wildcard' : interest.names.size,
      nonceSent: this.#sentNonce,
      nonceAcked: this.#ackedNonce,
      resumedUpToDate: this.#sentNonce === '' && this.#current,
      nonceNacked: this.#nackedNonce,
      versionSent: this.#sentSnapshot,
      versionAcked: this.#ackedSnapshot,
      versionComplete: this.#completeSnapshot,
      current: interest !== undefined && this.upToDate(parts),
      lastNack: this.#lastNack,
      quarantined: new Map(this.rejections.quarantined),
      sentMessages: this.#messages,
      sentBytes: this.#bytes,
    };
  }
}
