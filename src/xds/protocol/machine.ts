/**
 * All types of one stream, in the order that does not interrupt traffic (make before break): clusters, their endpoints,
 * then listeners and routes once the clusters that they point to are in place. Removals come last, when nothing that
 * the proxy has refers to the removed resources. The special rules of virtual hosts are in `vhds-state.ts`.
 */
import { byXdsType, XDS, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { Parts, ResourceAnswer, TypeStatus } from '../../push/index.ts';
import { type ClientState, EMPTY_STATE } from './client-state.ts';
import { receive, respond } from './driver.ts';
import type { Answer } from './inflight.ts';
import type { Interest } from './interest.ts';
import { type NameSet, type NameSets, NO_NAMES } from './name-set.ts';
import { Nonces } from './nonces.ts';
import { REMOVE_ALL, REMOVE_NONE } from './plans/removal-policy.ts';
import { NOTHING_SENT, type SentResources } from './presumed.ts';
import { isComplete, isSettled, isUpToDate } from './progress.ts';
import type { AnyRequest } from './requests.ts';
import { type ResourceState, resourceAnswer, resourceStates, type UnacceptedAnswer } from './resource-states.ts';
import type { ResponseMessage } from './responses.ts';
import type { Selections } from './selection.ts';
import { Subscription } from './subscription.ts';
import { ALL_BITS, BIT, CLUSTER_USER_BITS, CLUSTER_USERS, REFERRING, REFERRING_BITS } from './type-sets.ts';
import type { Variant } from './variant.ts';
import { VhdsState } from './vhds-state.ts';

export interface Outgoing {
  readonly type: XdsType;
  readonly message: ResponseMessage;
}

export interface PushResult {
  /** In sending order. */
  readonly messages: readonly Outgoing[];
  /** Whether more has to be sent when the proxy has answered. */
  readonly waiting: boolean;
}

const NO_MESSAGES: readonly Outgoing[] = [];
const NONE: readonly string[] = [];
const NO_TYPES: readonly XdsType[] = [];

export class AdsMachine<Request extends AnyRequest> {
  readonly variant: Variant<Request>;
  readonly #subscriptions: Readonly<Record<XdsType, Subscription>>;
  readonly #names: NameSets;
  readonly #selections: Selections;
  /** Names of endpoints that clusters just sent refer to and that the proxy has not subscribed to yet. */
  #awaitedEndpoints = NO_NAMES;
  /**
   * The proxy reconnected with clusters. It has not yet reported its listeners and routes, which may point to clusters
   * that no longer exist.
   */
  #resuming = false;
  /** What the proxy has asked for leads to clusters that it may not have. */
  #needsClusters = false;
  /**
   * The proxy reconnected with other resources, and has not requested clusters: Envoy does not while one of them warms.
   */
  #withoutClusters = false;
  /** Clusters were sent that the proxy has not requested on this stream. */
  #unrequested = false;
  /**
   * Types that may have something to send, as bits; for all other types, the proxy is known to have exactly their
   * `#parts`. There are thousands of machines, and most events affect one type: they set the bit of the type, and
   * {@link #updateUnfinished} clears it.
   */
  #unfinished = ALL_BITS;
  #parts: Parts | undefined;
  readonly #nonces = new Nonces();
  readonly #hosts: VhdsState;

  constructor(variant: Variant<Request>) {
    const { names, selections, plans } = variant.shared;
    this.variant = variant;
    this.#names = names;
    this.#selections = selections;
    this.#subscriptions = byXdsType((type) => new Subscription(type, plans));
    this.#hosts = new VhdsState(this.#subscriptions.rds, this.#subscriptions.vhds, selections);
  }

  /** Answers only names: a client that uses a few resources of the mesh is never sent all of them. */
  limitToNames(): void {
    for (const type of XDS_TYPES) this.#subscriptions[type].namesOnly = true;
  }

  /** The names that the proxy does not subscribe to. */
  #uncovered(names: NameSet, interest: Interest): NameSet {
    return interest.wildcard ? NO_NAMES : this.#names.outside(names, interest.names);
  }

  /**
   * True while responses wait for requests that the proxy is expected to send: listeners and routes for the request for
   * the new clusters' endpoints, removals for the requests of all types after a reconnect, and both for the request for
   * clusters then. `stopAwaiting` ends it.
   */
  get awaiting(): boolean {
    const awaitsEndpoints = this.#awaitedEndpoints.size > 0 && this.#subscriptions.cds.inflight === undefined;
    return awaitsEndpoints || this.#resuming || this.awaitsClusters;
  }

  /** The proxy had enough time to send its requests: responses no longer wait for them. */
  stopAwaiting(): void {
    this.#awaitedEndpoints = NO_NAMES;
    this.#resuming = false;
    this.#withoutClusters = false;
  }

  /** Whether the proxy has not answered the last clusters, and has others. */
  get clustersUnanswered(): boolean {
    const { inflight, state } = this.#subscriptions.cds;
    return inflight !== undefined && state !== EMPTY_STATE;
  }

  /** Listeners and routes wait for the first request for clusters after a reconnect. For proxies on demand. */
  needClusters(): void {
    this.#needsClusters = true;
  }

  get awaitsClusters(): boolean {
    return this.#needsClusters && this.#withoutClusters;
  }

  /** Whether the proxy answers clusters only later. */
  get answersLate(): boolean {
    return this.#unrequested || this.#subscriptions.cds.presumes;
  }

  /**
   * Envoy answers no clusters while one of them warms, and meanwhile uses others that it gets: those that were sent
   * count as accepted until it answers. If it has not requested clusters since it reconnected, it gets all of them.
   */
  presumeClusters(): void {
    const { cds } = this.#subscriptions;
    this.#unfinished |= BIT.cds;
    if (this.awaitsClusters) {
      cds.subscribe({ wildcard: true, names: NO_NAMES });
      this.#unrequested = true;
    }
    this.#withoutClusters = false;
    cds.presumeAccepted();
  }

  /**
   * The first request for clusters says what the proxy has, but for what may still be on its way to it.
   * @returns that
   */
  #clustersRequested(): SentResources {
    this.#withoutClusters = false;
    if (!this.#unrequested) return NOTHING_SENT;
    this.#unrequested = false;
    const { cds } = this.#subscriptions;
    const sent = cds.unanswered;
    cds.reset();
    return sent;
  }

  receive(type: XdsType, request: Request, parts: Parts, nowMs: number): Answer {
    const subscription = this.#subscriptions[type];
    const sent = type === 'cds' ? this.#clustersRequested() : NOTHING_SENT;
    const uncertain = type === 'vhds' ? this.#hosts.beforeRequest(request.responseNonce) : NONE;
    const first = subscription.interest === undefined;
    this.#unfinished |= BIT[type];
    const answer = receive(this.variant, subscription, request, parts[type], nowMs);
    subscription.markUncertain(uncertain);
    const unsure = [...sent].filter(([name, resource]) => subscription.known(name)?.version !== resource?.version);
    if (unsure.length > 0)
      subscription.forgetVersions(
        unsure.map(([name]) => name),
        sent,
      );
    if (first && subscription.state !== EMPTY_STATE) {
      this.#hosts.reconnected();
      if (type === 'cds') this.#resuming = true;
      else if (this.#subscriptions.cds.interest === undefined) this.#withoutClusters = true;
    }
    // The proxy will not subscribe to the endpoints of clusters that it rejected.
    if (type === 'cds' && answer.kind === 'nack' && this.#awaitedEndpoints.size > 0)
      this.#awaitedEndpoints = this.#names.outside(this.#awaitedEndpoints, this.#selections.refsOf(answer.changed));
    if (type === 'eds') this.#endpointsRequested();
    if (type === 'vhds' && first) this.#hosts.subscribed(parts.vhds);
    if (type === 'rds') this.#hosts.routesAnswered(answer.kind === 'nack');
    return answer;
  }

  #endpointsRequested(): void {
    const { eds } = this.#subscriptions;
    const before = this.#awaitedEndpoints;
    if (eds.interest === undefined || before.size === 0) return;
    this.#awaitedEndpoints = this.#uncovered(before, eds.interest);
    // The proxy may have had these endpoints before, in the version that is current again, but not since it was sent
    // the cluster.
    if (eds.state !== EMPTY_STATE && this.#awaitedEndpoints !== before)
      for (const name of this.#names.outside(before, this.#awaitedEndpoints).names) eds.forced.add(name);
  }

  /** Sets the bits of types whose parts changed, clears those of types that are up to date, and returns all bits. */
  #updateUnfinished(parts: Parts): number {
    const before = this.#parts;
    let unfinished = this.#unfinished;
    if (before !== parts) {
      this.#parts = parts;
      for (let index = 0; index < XDS_TYPES.length; index++) {
        const type = XDS_TYPES[index];
        if (type !== undefined && parts[type] !== before?.[type]) unfinished |= BIT[type];
      }
    }
    for (let index = 0; index < XDS_TYPES.length; index++) {
      const type = XDS_TYPES[index];
      if (type === undefined || (unfinished & BIT[type]) === 0) continue;
      if (isUpToDate(this.#subscriptions[type], parts[type])) unfinished &= ~BIT[type];
    }
    this.#unfinished = unfinished;
    return unfinished;
  }

  /** Types that probably have something to send now, so that a push slot is worth requesting. */
  typesToSend(parts: Parts): readonly XdsType[] {
    const unfinished = this.#updateUnfinished(parts);
    if (unfinished === 0) return NO_TYPES;
    return XDS_TYPES.filter((type) => {
      const subscription = this.#subscriptions[type];
      return (
        (unfinished & BIT[type]) !== 0 && subscription.inflight === undefined && !this.#isComplete(subscription, parts)
      );
    });
  }

  /** Everything that can be sent now. The responses count as outstanding from then on. */
  push(parts: Parts, snapshot: number): PushResult {
    if (this.#updateUnfinished(parts) === 0) return { messages: NO_MESSAGES, waiting: false };
    const messages: Outgoing[] = [];
    const removals = this.#mayRemove(parts);
    this.#sendTypes(parts, snapshot, removals, messages);
    // If only removals are left to send, they may be sent now.
    if (!removals && this.#mayRemove(parts)) this.#sendTypes(parts, snapshot, true, messages);
    return { messages, waiting: !this.complete(parts) };
  }

  #sendTypes(parts: Parts, snapshot: number, removals: boolean, messages: Outgoing[]): void {
    for (let index = 0; index < XDS_TYPES.length; index++) {
      const type = XDS_TYPES[index];
      if (type === undefined || (this.#unfinished & BIT[type]) === 0) continue;
      const subscription = this.#subscriptions[type];
      if (subscription.interest === undefined || subscription.inflight !== undefined) continue;
      if ((CLUSTER_USER_BITS & BIT[type]) !== 0 && this.#clustersPending()) continue;
      const nonce = this.#nonces.next(snapshot);
      const { state } = subscription;
      const removes = type === 'vhds' ? this.#hosts.removalPolicy(parts.rds) : removals ? REMOVE_ALL : REMOVE_NONE;
      const message = respond(this.variant, subscription, parts[type], { nonce, snapshot, removes });
      if (message === undefined) continue;
      this.#nonces.used();
      if (type === 'rds') this.#removeHosts(state, parts, snapshot, messages);
      messages.push({ type, message });
      if (type === 'cds') this.#forceEndpoints(subscription);
      if (type === 'rds') this.#hostsAfterRoutes(state, parts);
    }
  }

  /**
   * A changed cluster warms until it is sent its endpoints, even if they did not change: Envoy does not request them
   * again.
   */
  #forceEndpoints(clusters: Subscription): void {
    const { interest, forced } = this.#subscriptions.eds;
    this.#unfinished |= BIT.eds;
    for (const changed of clusters.inflight?.changed.lists ?? []) {
      const refs = this.#selections.refsOf(changed);
      const unrequested = interest === undefined ? refs : this.#uncovered(refs, interest);
      this.#awaitedEndpoints = this.#names.change(this.#awaitedEndpoints, unrequested, NO_NAMES);
      if (unrequested !== refs) for (const name of this.#names.outside(refs, unrequested).names) forced.add(name);
    }
  }

  /**
   * Removes virtual hosts before the routes that are being sent.
   * @param before the proxy's routes before them
   */
  #removeHosts(before: ClientState, parts: Parts, snapshot: number, messages: Outgoing[]): void {
    const removed = this.#hosts.toRemove(before, parts.vhds);
    if (removed.length === 0) return;
    const nonce = this.#nonces.next(snapshot);
    this.#nonces.used();
    this.#subscriptions.vhds.recordRemoval(nonce, removed);
    const message = { typeUrl: XDS.vhds.url, version: String(snapshot), nonce, removed, body: [] };
    messages.push({ type: 'vhds', message });
  }

  #hostsAfterRoutes(before: ClientState, parts: Parts): void {
    this.#unfinished |= BIT.vhds;
    this.#hosts.routesSent(before, parts.vhds);
  }

  #isComplete(subscription: Subscription, parts: Parts): boolean {
    const { type, state } = subscription;
    const waits = type === 'vhds' && state.overlay.size > 0;
    return isComplete(subscription, parts[type], waits ? this.#hosts.removalPolicy(parts.rds) : REMOVE_ALL);
  }

  /** Listeners and routes must not point to clusters that the proxy does not have, or has without endpoints. */
  #clustersPending(): boolean {
    const { cds, eds } = this.#subscriptions;
    return (
      this.awaitsClusters ||
      cds.inflight !== undefined ||
      this.#awaitedEndpoints.size > 0 ||
      (eds.inflight !== undefined && eds.forced.size > 0)
    );
  }

  /**
   * Whether no resource of the proxy refers to resources that no longer exist: everything is acknowledged, and the
   * proxy does not keep an older version of a listener or route because it rejected the newer one.
   */
  #mayRemove(parts: Parts): boolean {
    if (this.awaiting) return false;
    if ((this.#unfinished & REFERRING_BITS) === 0) return true;
    for (const type of REFERRING) if (!isSettled(this.#subscriptions[type], parts[type])) return false;
    for (const type of CLUSTER_USERS) if (!this.#subscriptions[type].rejections.empty) return false;
    return true;
  }

  /** Everything that the proxy subscribes to is acknowledged, or quarantined; after a rejection removals wait too. */
  complete(parts: Parts): boolean {
    const unfinished = this.#updateUnfinished(parts);
    if (unfinished === 0) return true;
    if (this.answersLate) return false;
    const stuck = CLUSTER_USERS.some((type) => this.#subscriptions[type].rejections.count > 0);
    for (const type of XDS_TYPES) {
      if ((unfinished & BIT[type]) === 0) continue;
      const subscription = this.#subscriptions[type];
      if (!(stuck ? isSettled(subscription, parts[type]) : this.#isComplete(subscription, parts))) return false;
    }
    return true;
  }

  /** Number of resources of a type that the proxy has reported and that do not exist here. */
  reported(type: XdsType): number {
    return this.#subscriptions[type].reported;
  }

  /** The names of a type that the proxy subscribes to. */
  names(type: XdsType): NameSet {
    return this.#subscriptions[type].interest?.names ?? NO_NAMES;
  }

  /** True when the proxy has subscribed to some type. */
  get active(): boolean {
    return XDS_TYPES.some((type) => this.#subscriptions[type].interest !== undefined);
  }

  /** The resources of a type that the proxy should have, by name; undefined if the proxy has not requested the type. */
  states(type: XdsType, parts: Parts): ReadonlyMap<string, ResourceState> | undefined {
    return resourceStates(this.#subscriptions[type], parts[type]);
  }

  /**
   * The snapshot version up to which the proxy has acknowledged everything that it requests; 0 if it requests nothing.
   * @param complete the version of the parts
   */
  acknowledgedVersion(parts: Parts, complete: number): number {
    const versions = XDS_TYPES.map((type) => this.#subscriptions[type].acknowledgedVersion(parts[type], complete));
    const requested = versions.filter((version) => version !== undefined);
    return requested.length === 0 ? 0 : Math.min(...requested);
  }

  /** The resources of a type that the proxy requests and has not accepted. */
  *unaccepted(type: XdsType, parts: Parts): Generator<readonly [name: string, answer: UnacceptedAnswer]> {
    const subscription = this.#subscriptions[type];
    if (subscription.interest === undefined || isUpToDate(subscription, parts[type])) return;
    for (const part of parts[type])
      for (const { name } of part.resources()) {
        const answer = resourceAnswer(subscription, parts[type], name);
        if (answer !== 'accepted' && answer !== 'unrequested') yield [name, answer];
      }
  }

  /** What the proxy did with the resource of this name. */
  answerOf(type: XdsType, name: string, parts: Parts): ResourceAnswer {
    return resourceAnswer(this.#subscriptions[type], parts[type], name);
  }

  countBytes(type: XdsType, bytes: number): void {
    this.#subscriptions[type].countBytes(bytes);
  }

  /** Adds the number of the proxy's quarantined resources to each type's count. */
  countQuarantined(counts: Record<XdsType, number>): void {
    for (const type of XDS_TYPES) counts[type] += this.#subscriptions[type].rejections.count;
  }

  /** @param parts what the proxy should have */
  status(parts: Parts): ReadonlyMap<XdsType, TypeStatus> {
    return new Map(XDS_TYPES.map((type) => [type, this.#subscriptions[type].status(parts[type])]));
  }
}
