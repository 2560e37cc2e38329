/**
 * One type on one stream: what the proxy asked for, what it has, what it was sent and has not answered yet. Pure state,
 * shared by both protocols; `sotw.ts` and `delta.ts` say how it is talked about.
 *
 * The parts of a type are expected to be disjoint: no two hold the same name.
 */
import type { XdsType } from '../../core/xds-types.ts';
import type { Bundle, EncodedResource, TypeStatus } from '../../push/types.ts';
import {
  findIn,
  HAS_NOTHING,
  type Have,
  type Held,
  heldOf,
  lacking,
  sameBundles,
  sameViews,
  UNKNOWN,
  unsure,
  withOthers,
  without,
} from './client-state.ts';
import { covers, type Interest } from './interest.ts';
import { NONE_KEPT, type Plan, type Plans } from './plan.ts';
import { Rejections } from './rejection.ts';
import { REMOVE_ALL, type RemovalPolicy } from './removal-policy.ts';
import { ResourceLists } from './selection.ts';

/** A response that has not been acknowledged. */
export interface Inflight {
  readonly nonce: string;
  /** What the proxy has once it acknowledges. */
  next: Have;
  readonly changed: ResourceLists;
  /** Names that the response took away. */
  readonly removed: readonly string[];
  readonly owed: ReadonlySet<string>;
  readonly mustAnswer: boolean;
  readonly snapshot: number;
}

/** What came of the nonce and error of a request. */
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
  /** SotW and Delta: the first request named nothing, which means everything. */
  legacyWildcard = false;
  have: Have = HAS_NOTHING;
  /**
   * Names that have to be answered whatever the proxy has: newly asked for, asked for again, or waited for (EDS of a
   * changed cluster).
   */
  owed = new Set<string>();
  /** The next response is due even if it is empty: the proxy waits for one. */
  mustAnswer = false;
  inflight: Inflight | undefined;
  /** SotW: resources have gone since the proxy acknowledged a version, without a response. */
  versionBehind = false;
  readonly rejections = new Rejections();
  readonly #plans: Plans;
  /**
   * Names of which the proxy may have what it was sent: of a rejected response it may have followed some all the same.
   */
  readonly #maybe = new Set<string>();

  #sentNonce = '';
  #ackedNonce = '';
  #nackedNonce = '';
  #asideNonce = '';
  #sentSnapshot = 0;
  #ackedSnapshot = 0;
  #heldSnapshot = 0;
  /** The proxy was seen to have all of it without being sent anything. */
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

  /** Nothing is outstanding and the proxy was brought to these parts, except for what is kept back and removals. */
  settled(parts: readonly Bundle[]): boolean {
    if (this.interest === undefined) return true;
    if (this.inflight !== undefined || this.owed.size > 0 || this.mustAnswer || this.rejections.searching) return false;
    if (!sameBundles(this.have.bases, parts)) return false;
    if (this.have.overlay.size === 0) return true;
    for (const name of this.have.overlay.keys())
      if (!this.rejections.quarantined.has(name) && findIn(parts, name) !== undefined) return false;
    return true;
  }

  /**
   * Settled, and no removal waits for its turn, apart from those that have to wait longer: `removes` says which have
   * not.
   */
  complete(parts: readonly Bundle[], removes: RemovalPolicy = REMOVE_ALL): boolean {
    if (!this.settled(parts)) return false;
    if (this.have.overlay.size === 0) return true;
    for (const name of this.have.overlay.keys())
      if (!this.rejections.quarantined.has(name) && removes(name)) return false;
    return true;
  }

  /**
   * Nothing at all is to be worked out for these parts: the proxy has exactly them, and nothing is owed, kept back or
   * in doubt; or it has not asked. What is through is also complete, and stays so until it is told something or there
   * are other parts.
   */
  through(parts: readonly Bundle[]): boolean {
    if (this.interest === undefined) return true;
    return (
      this.inflight === undefined &&
      sameBundles(this.have.bases, parts) &&
      this.have.overlay.size === 0 &&
      this.#maybe.size === 0 &&
      this.owed.size === 0 &&
      !this.mustAnswer &&
      this.rejections.empty
    );
  }

  /** Records a response as sent. */
  sent(nonce: string, plan: Plan, snapshot: number): void {
    this.inflight = {
      nonce,
      next: plan.next,
      changed: plan.changed,
      removed: plan.removed,
      owed: this.owed.size === 0 ? NONE_KEPT : this.owed,
      mustAnswer: this.mustAnswer,
      snapshot,
    };
    this.#keep(plan);
    this.mustAnswer = false;
    this.#sentNonce = nonce;
    this.#sentSnapshot = snapshot;
  }

  /** Counts bytes on the wire, for the status. */
  countBytes(bytes: number): void {
    this.#messages++;
    this.#bytes += bytes;
  }

  /** Takes the nonce and error of a request. */
  answered(nonce: string, nack: string | undefined, nowMs: number): Answer {
    if (nonce === '' || nonce === this.#asideNonce) return NO_ANSWER;
    const inflight = this.inflight;
    if (inflight === undefined) return nonce === this.#sentNonce ? NO_ANSWER : { ...NO_ANSWER, kind: 'stale' };
    if (nonce !== inflight.nonce) return { ...NO_ANSWER, kind: 'stale' };
    this.inflight = undefined;
    if (nack === undefined) {
      this.reached(inflight.next);
      this.rejections.acknowledged();
      this.versionBehind = false;
      this.#ackedNonce = nonce;
      this.#ackedSnapshot = inflight.snapshot;
      if (this.rejections.empty) this.#heldSnapshot = inflight.snapshot;
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
   * Everything is sent again except the culprits: an Envoy may have applied the good ones, but it does not count their
   * versions as received, and would be sent them at its next reconnect.
   */
  #afterNack(inflight: Inflight, changed: readonly EncodedResource[], quarantined: readonly string[]): void {
    // A rejected removal cannot be kept back resource by resource; sending it again would only be rejected again.
    if (changed.length === 0) {
      this.reached(inflight.next);
      return;
    }
    // Of a culprit the proxy has what it had before, and that may be unknown from an earlier rejected response.
    const culprits = new Set(quarantined);
    for (const { name } of changed) if (!culprits.has(name)) this.#maybe.add(name);
    for (const name of inflight.removed) if (heldOf(this.have, name) !== undefined) this.#maybe.add(name);
    for (const name of inflight.owed) this.owed.add(name);
    this.mustAnswer ||= inflight.mustAnswer;
  }

  /** Records a response that only takes away what is sent again after it; its answer says nothing. */
  sentAside(nonce: string, removed: readonly string[]): void {
    this.#asideNonce = nonce;
    this.doubt(removed);
  }

  /** Whatever the proxy had or was sent of these names until now, it may have lost. */
  doubt(names: readonly string[]): void {
    this.have = unsure(this.have, names);
    if (this.inflight !== undefined) this.inflight.next = unsure(this.inflight.next, names);
  }

  /** The proxy may count this as received. */
  mayHave(name: string): boolean {
    return (
      this.held(name) !== undefined || (this.inflight !== undefined && heldOf(this.inflight.next, name) !== undefined)
    );
  }

  /**
   * Nothing of what was sent counts: the type begins anew with the proxy's first request. Returns what is under way to
   * it.
   */
  forget(): readonly string[] {
    const sent = this.inflight?.changed.flat().map(({ name }) => name) ?? [];
    this.interest = undefined;
    this.inflight = undefined;
    this.owed = new Set();
    this.mustAnswer = false;
    this.reached(HAS_NOTHING);
    return sent;
  }

  /** Of these names the proxy may have been sent something that it took. */
  mayHaveTaken(names: readonly string[]): void {
    for (const name of names) this.#maybe.add(name);
  }

  /** Records that the plan needs no response. */
  skipped(plan: Plan): void {
    if (plan.removed.some((name) => this.held(name) !== undefined)) this.versionBehind = true;
    this.resumed(plan.next);
    this.#keep(plan);
  }

  /** All that was owed is, but for what has to wait. */
  #keep({ kept }: Plan): void {
    if (this.owed.size > 0 || kept.size > 0) this.owed = new Set(kept);
  }

  /** The proxy is known to have this, which is all that it should have, before anything is sent. */
  resumed(have: Have): void {
    this.#current = true;
    this.reached(have);
  }

  /** The proxy is known to have this. */
  reached(have: Have): void {
    this.have = have;
    if (this.#maybe.size > 0) this.#maybe.clear();
  }

  /** What the proxy has of this name, as far as is known. */
  held(name: string): Held | undefined {
    const held = heldOf(this.have, name);
    return this.#maybe.has(name) ? { version: UNKNOWN, resource: held?.resource } : held;
  }

  /**
   * Widens or narrows the subscription. What it did not cover before, the proxy does not have, whatever the bundles
   * say: names have to be given as `owed`; a new wildcard is taken care of here.
   */
  subscribe(interest: Interest): void {
    const before = this.interest;
    this.interest = interest;
    if (before === undefined || before.wildcard || !interest.wildcard) return;
    this.mustAnswer = true;
    this.have = without(this.have, before);
    if (this.inflight !== undefined) this.inflight.next = without(this.inflight.next, before);
  }

  /** The proxy has this as well, under names that it was never sent on this stream and will not be. */
  alsoHas(others: ReadonlyMap<string, Held>): void {
    if (others.size === 0) return;
    this.have = withOthers(this.have, others);
    if (this.inflight !== undefined) this.inflight.next = withOthers(this.inflight.next, others);
  }

  /**
   * Owes an answer for names that the proxy asks for, or asks for again, having dropped them in between. It has nothing
   * of them unless they were part of the wildcard `before`.
   */
  owe(names: Iterable<string>, before: Interest): void {
    const added = [...names];
    for (const name of added) this.owed.add(name);
    if (before.wildcard) return;
    this.have = lacking(this.have, added);
    if (this.inflight !== undefined) this.inflight.next = lacking(this.inflight.next, added);
  }

  /** What is to be sent. What is gone and not to be removed now, the proxy keeps. */
  plan(interest: Interest, parts: readonly Bundle[], removes: RemovalPolicy): Plan {
    const { have } = this;
    if (!this.rejections.empty) this.rejections.prune((name) => findIn(parts, name));
    const fresh = have === HAS_NOTHING;
    if (
      this.#maybe.size === 0 &&
      this.owed.size === 0 &&
      have.overlay.size === 0 &&
      this.rejections.empty &&
      (fresh || sameViews(have.bases, parts))
    )
      return (
        (fresh ? undefined : this.#plans.step(have, interest, parts)) ??
        this.#plans.whole(have, interest, parts, removes, fresh)
      );
    return this.#planByName(interest, parts, removes, fresh);
  }

  #planByName(interest: Interest, parts: readonly Bundle[], removes: RemovalPolicy, fresh: boolean): Plan {
    const changed: EncodedResource[] = [];
    const removed: string[] = [];
    const overlay = new Map<string, Held | undefined>();
    const kept = new Set<string>();
    for (const name of this.#touched(interest, parts, fresh)) {
      if (!covers(interest, name)) continue;
      const now = findIn(parts, name);
      const held = this.held(name);
      const owed = this.owed.has(name);
      if (now === undefined) {
        if (owed || (fresh && interest.names.has(name)) || (held !== undefined && removes(name))) removed.push(name);
        else if (held !== undefined) overlay.set(name, held);
      } else if (owed || held?.version !== now.version) {
        if (!this.rejections.holds(name, now.version)) changed.push(now);
        else if (held?.version !== now.version) overlay.set(name, held);
        if (owed && this.rejections.waits(name, now.version)) kept.add(name);
      }
    }
    return {
      changed: new ResourceLists([changed]),
      removed,
      next: { bases: parts, overlay },
      kept,
      shared: undefined,
    };
  }

  /** Names whose state may differ between what the proxy has and the parts. */
  #touched(interest: Interest, parts: readonly Bundle[], fresh: boolean): Set<string> {
    const { have } = this;
    const names = new Set<string>(this.owed);
    for (const name of have.overlay.keys()) names.add(name);
    for (const name of this.#maybe) names.add(name);
    if (fresh) for (const name of interest.names.names) names.add(name);
    if (sameViews(have.bases, parts)) {
      parts.forEach((bundle, index) => {
        if (bundle === have.bases[index]) return;
        const diff = bundle.diffFrom(have.bases[index]);
        for (const resource of diff.changed) names.add(resource.name);
        for (const name of diff.removed) names.add(name);
      });
      return names;
    }
    // The proxy moved to other views (its labels changed, it reconnects as something else): all of both sides.
    for (const bundle of [...have.bases, ...parts]) for (const { name } of bundle.resources()) names.add(name);
    return names;
  }

  /** @param parts what the proxy should have */
  status(parts: readonly Bundle[]): TypeStatus {
    const { interest } = this;
    return {
      subscribed: interest === undefined ? 'none' : interest.wildcard ? 'wildcard' : interest.names.size,
      nonceSent: this.#sentNonce,
      nonceAcked: this.#ackedNonce,
      cameCurrent: this.#sentNonce === '' && this.#current,
      nonceNacked: this.#nackedNonce,
      versionSent: this.#sentSnapshot,
      versionAcked: this.#ackedSnapshot,
      versionHeld: this.#heldSnapshot,
      current: interest !== undefined && this.through(parts),
      lastNack: this.#lastNack,
      quarantined: new Map(this.rejections.quarantined),
      sentMessages: this.#messages,
      sentBytes: this.#bytes,
    };
  }
}
