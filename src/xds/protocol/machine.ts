/**
 * All types of one stream, in the order that keeps traffic flowing (make before break): clusters, their endpoints, then
 * listeners and routes once the clusters they point to are in place; what is gone leaves last, when nothing the proxy
 * has refers to it any more. Pure: time, nonces' snapshot and content come in. What is particular to virtual hosts
 * stands in `vhds-state.ts`.
 */
import { byXdsType, XDS, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { Parts, TypeStatus } from '../../push/types.ts';
import { HAS_NOTHING, type Have } from './client-state.ts';
import { receive, respond } from './driver.ts';
import type { Interest } from './interest.ts';
import { type NameSet, type NameSets, NO_NAMES } from './name-set.ts';
import { Nonces } from './nonces.ts';
import { REMOVE_ALL, REMOVE_NONE } from './removal-policy.ts';
import type { AnyRequest } from './requests.ts';
import type { ResponseMessage } from './responses.ts';
import type { Selections } from './selection.ts';
import { type Answer, Subscription } from './subscription.ts';
import type { Variant } from './variant.ts';
import { VhdsState } from './vhds-state.ts';

export interface Outgoing {
  readonly type: XdsType;
  readonly message: ResponseMessage;
}

export interface PushResult {
  /** In sending order. */
  readonly messages: readonly Outgoing[];
  /** Something is left that waits for an answer of the proxy. */
  readonly waiting: boolean;
}

/** Types as bits of a set. */
const BIT: Readonly<Record<XdsType, number>> = byXdsType((type) => 1 << XDS_TYPES.indexOf(type));

function bitsOf(types: readonly XdsType[]): number {
  return types.reduce((bits, type) => bits | BIT[type], 0);
}

const ALL_BITS = bitsOf(XDS_TYPES);
/** Types whose resources refer to others, so that removals wait for them. */
const REFERRING = XDS_TYPES.filter((type) => XDS[type].refersTo.length > 0);
const REFERRING_BITS = bitsOf(REFERRING);
/** Types that point to clusters. */
const CLUSTER_USERS = XDS_TYPES.filter((type) => XDS[type].refersTo.includes('cds'));
const CLUSTER_USER_BITS = bitsOf(CLUSTER_USERS);

const NO_MESSAGES: readonly Outgoing[] = [];
const NONE: readonly string[] = [];
const NOT_DUE: readonly XdsType[] = [];

export class AdsMachine<Request extends AnyRequest> {
  readonly protocol: Variant<Request>;
  readonly #subscriptions: Readonly<Record<XdsType, Subscription>>;
  readonly #names: NameSets;
  readonly #selections: Selections;
  /** EDS names of clusters just sent that the proxy has not asked for yet. */
  #awaited = NO_NAMES;
  /**
   * The proxy came back with clusters; its listeners and routes, which may point to those that are gone, are yet to be
   * heard of.
   */
  #resuming = false;
  /**
   * Types that may have anything to be done; of the others it is known that the proxy has exactly their `#parts`. Most
   * of what happens is about one type of them all, and there are thousands of machines: whatever touches a type opens
   * it, and {@link #look} closes it again.
   */
  #open = ALL_BITS;
  #parts: Parts | undefined;
  readonly #nonces = new Nonces();
  readonly #hosts: VhdsState;

  constructor(protocol: Variant<Request>) {
    const { names, selections, plans } = protocol.shared;
    this.protocol = protocol;
    this.#names = names;
    this.#selections = selections;
    this.#subscriptions = byXdsType((type) => new Subscription(type, plans));
    this.#hosts = new VhdsState(this.#subscriptions.rds, this.#subscriptions.vhds, selections);
  }

  /** The names that the proxy has not asked for. */
  #uncovered(names: NameSet, interest: Interest): NameSet {
    return interest.wildcard ? NO_NAMES : this.#names.outside(names, interest.names);
  }

  /**
   * True while something waits for requests that the proxy is expected to send: listeners and routes for it to ask for
   * its new clusters' endpoints, removals for all its types after a reconnect. End it with `stopAwaiting`.
   */
  get awaiting(): boolean {
    return (this.#awaited.size > 0 && this.#subscriptions.cds.inflight === undefined) || this.#resuming;
  }

  /** The proxy had its time to ask: serve the rest. */
  stopAwaiting(): void {
    this.#awaited = NO_NAMES;
    this.#resuming = false;
  }

  receive(type: XdsType, request: Request, parts: Parts, nowMs: number): Answer {
    const subscription = this.#subscriptions[type];
    const unanswered = type === 'vhds' ? this.#hosts.beforeAsked(request.responseNonce) : NONE;
    const first = subscription.interest === undefined;
    this.#open |= BIT[type];
    const answer = receive(this.protocol, subscription, request, parts[type], nowMs);
    subscription.mayHaveTaken(unanswered);
    if (first && subscription.have !== HAS_NOTHING) {
      this.#hosts.returned();
      if (type === 'cds') this.#resuming = true;
    }
    // What was rejected is sent again without the culprits, whose endpoints nobody will ask for.
    if (type === 'cds' && answer.kind === 'nack')
      this.#awaited = this.#names.outside(this.#awaited, this.#selections.refsOf(answer.changed));
    if (type === 'eds') this.#checkAwaited();
    if (type === 'vhds' && first) this.#hosts.asked(parts.vhds);
    if (type === 'rds') this.#hosts.routesAnswered(answer.kind === 'nack');
    return answer;
  }

  #checkAwaited(): void {
    const { eds } = this.#subscriptions;
    const before = this.#awaited;
    if (eds.interest === undefined || before.size === 0) return;
    this.#awaited = this.#uncovered(before, eds.interest);
    // The proxy may have had these endpoints once, under a version that is current again, but not since it got the
    // cluster.
    if (eds.have !== HAS_NOTHING && this.#awaited !== before)
      for (const name of this.#names.outside(before, this.#awaited).names) eds.owed.add(name);
  }

  /**
   * Opens the types whose parts are others than last time, and closes those that are through with them. Returns what is
   * open.
   */
  #look(parts: Parts): number {
    const before = this.#parts;
    let open = this.#open;
    if (before !== parts) {
      this.#parts = parts;
      for (let index = 0; index < XDS_TYPES.length; index++) {
        const type = XDS_TYPES[index];
        if (type !== undefined && parts[type] !== before?.[type]) open |= BIT[type];
      }
    }
    for (let index = 0; index < XDS_TYPES.length; index++) {
      const type = XDS_TYPES[index];
      if (type === undefined || (open & BIT[type]) === 0) continue;
      if (this.#subscriptions[type].through(parts[type])) open &= ~BIT[type];
    }
    this.#open = open;
    return open;
  }

  /**
   * Types that have something to send now, so that a push slot is worth asking for. May name one that turns out to need
   * nothing.
   */
  due(parts: Parts): readonly XdsType[] {
    const open = this.#look(parts);
    if (open === 0) return NOT_DUE;
    return XDS_TYPES.filter((type) => {
      const subscription = this.#subscriptions[type];
      return (open & BIT[type]) !== 0 && subscription.inflight === undefined && !this.#isComplete(subscription, parts);
    });
  }

  /** Everything that can be sent now; the responses count as outstanding from here on. */
  push(parts: Parts, snapshot: number): PushResult {
    if (this.#look(parts) === 0) return { messages: NO_MESSAGES, waiting: false };
    const messages: Outgoing[] = [];
    const removals = this.#removalsOpen(parts);
    this.#pass(parts, snapshot, removals, messages);
    // Where nothing but removals was due, their time has come already.
    if (!removals && this.#removalsOpen(parts)) this.#pass(parts, snapshot, true, messages);
    return { messages, waiting: !this.complete(parts) };
  }

  #pass(parts: Parts, snapshot: number, removals: boolean, messages: Outgoing[]): void {
    for (let index = 0; index < XDS_TYPES.length; index++) {
      const type = XDS_TYPES[index];
      if (type === undefined || (this.#open & BIT[type]) === 0) continue;
      const subscription = this.#subscriptions[type];
      if (subscription.interest === undefined || subscription.inflight !== undefined) continue;
      if ((CLUSTER_USER_BITS & BIT[type]) !== 0 && this.#targetsPending()) continue;
      const nonce = this.#nonces.next(snapshot);
      const { have } = subscription;
      const removes = type === 'vhds' ? this.#hosts.goes(parts.rds) : removals ? REMOVE_ALL : REMOVE_NONE;
      const message = respond(this.protocol, subscription, parts[type], { nonce, snapshot, removes });
      if (message === undefined) continue;
      this.#nonces.used();
      if (type === 'rds') this.#takeHosts(have, parts, snapshot, messages);
      messages.push({ type, message });
      if (type === 'cds') this.#oweEndpoints(subscription);
      if (type === 'rds') this.#feedHosts(have, parts);
    }
  }

  /**
   * A changed cluster warms until it gets its endpoints, also when they are what they were: Envoy does not ask again.
   */
  #oweEndpoints(clusters: Subscription): void {
    const { interest, owed } = this.#subscriptions.eds;
    this.#open |= BIT.eds;
    for (const changed of clusters.inflight?.changed.lists ?? []) {
      const refs = this.#selections.refsOf(changed);
      const unasked = interest === undefined ? refs : this.#uncovered(refs, interest);
      this.#awaited = this.#names.change(this.#awaited, unasked, NO_NAMES);
      if (unasked !== refs) for (const name of this.#names.outside(refs, unasked).names) owed.add(name);
    }
  }

  /** Before the routes that are just being sent. `had`: those that the proxy has. */
  #takeHosts(had: Have, parts: Parts, snapshot: number, messages: Outgoing[]): void {
    const removed = this.#hosts.taken(had, parts.vhds);
    if (removed.length === 0) return;
    const nonce = this.#nonces.next(snapshot);
    this.#nonces.used();
    this.#subscriptions.vhds.sentAside(nonce, removed);
    const message = { typeUrl: XDS.vhds.url, version: String(snapshot), nonce, removed, body: [] };
    messages.push({ type: 'vhds', message });
  }

  #feedHosts(had: Have, parts: Parts): void {
    this.#open |= BIT.vhds;
    this.#hosts.feed(had, parts.vhds);
  }

  #isComplete(subscription: Subscription, parts: Parts): boolean {
    const { type, have } = subscription;
    const waits = type === 'vhds' && have.overlay.size > 0;
    return subscription.complete(parts[type], waits ? this.#hosts.goes(parts.rds) : REMOVE_ALL);
  }

  /** Listeners and routes must not point to clusters that the proxy does not have, or has without endpoints. */
  #targetsPending(): boolean {
    const { cds, eds } = this.#subscriptions;
    return cds.inflight !== undefined || this.#awaited.size > 0 || (eds.inflight !== undefined && eds.owed.size > 0);
  }

  /**
   * Nothing that the proxy has refers to what is gone: all is acknowledged, and no rejected listener or route lives on
   * in an older version.
   */
  #removalsOpen(parts: Parts): boolean {
    if (this.awaiting) return false;
    if ((this.#open & REFERRING_BITS) === 0) return true;
    for (const type of REFERRING) if (!this.#subscriptions[type].settled(parts[type])) return false;
    for (const type of CLUSTER_USERS) if (!this.#subscriptions[type].rejections.empty) return false;
    return true;
  }

  /**
   * Everything that the proxy asked for is acknowledged, or kept back for good reason: after a rejection also removals
   * are.
   */
  complete(parts: Parts): boolean {
    const open = this.#look(parts);
    if (open === 0) return true;
    const stuck = CLUSTER_USERS.some((type) => this.#subscriptions[type].rejections.quarantined.size > 0);
    for (const type of XDS_TYPES) {
      if ((open & BIT[type]) === 0) continue;
      const subscription = this.#subscriptions[type];
      if (!(stuck ? subscription.settled(parts[type]) : this.#isComplete(subscription, parts))) return false;
    }
    return true;
  }

  /** True when the proxy has asked for anything yet. */
  get active(): boolean {
    return XDS_TYPES.some((type) => this.#subscriptions[type].interest !== undefined);
  }

  countBytes(type: XdsType, bytes: number): void {
    this.#subscriptions[type].countBytes(bytes);
  }

  /** Adds how many resources are kept back from the proxy, by type. */
  countQuarantined(counts: Record<XdsType, number>): void {
    for (const type of XDS_TYPES) counts[type] += this.#subscriptions[type].rejections.quarantined.size;
  }

  /** @param parts what the proxy should have */
  status(parts: Parts): ReadonlyMap<XdsType, TypeStatus> {
    return new Map(XDS_TYPES.map((type) => [type, this.#subscriptions[type].status(parts[type])]));
  }
}
