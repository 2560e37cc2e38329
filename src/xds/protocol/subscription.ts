/**
 * The state of one resource type on one stream: the subscription of the proxy, the resources that it has, and the
 * response that it has not answered yet. The same for both variants of the protocol; there is no I/O.
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
  keptOf,
  knownResource,
  limitedTo,
  sameViews,
  UNKNOWN_VERSION,
  withoutNames,
  withResources,
  withUnknownVersions,
} from './client-state.ts';
import { History } from './history.ts';
import { ACKED, type Answer, type Inflight, NO_ANSWER } from './inflight.ts';
import { covers, type Interest } from './interest.ts';
import type { NameSet } from './name-set.ts';
import type { Plan, Plans } from './plans/plan.ts';
import { type KnownProxy, planByName, planSearch } from './plans/plan-by-name.ts';
import type { RemovalPolicy } from './plans/removal-policy.ts';
import { NOTHING_SENT, Presumed, type SentResources } from './presumed.ts';
import { isUpToDate } from './progress.ts';
import { Doubts, type KnownDoubts, NO_DOUBTS } from './rejections/doubts.ts';
import { type KnownRejections, NO_REJECTIONS, type Rejection, Rejections } from './rejections/rejection.ts';
import { ForcedNames } from './unanswered/forced-names.ts';
import { MissingNames } from './unanswered/missing-names.ts';
import { PORTION } from './unanswered/portions.ts';

export class Subscription implements KnownProxy {
  readonly type: XdsType;
  /** Undefined until the first request of the type. */
  interest: Interest | undefined;
  /** The first request named no resource, which means all of them. */
  legacyWildcard = false;
  /** Only requests for names are answered; requests for all resources get no resources. */
  namesOnly = false;
  state: ClientState = EMPTY_STATE;
  /** Names that responses must contain even if the proxy has their current version. */
  readonly forced = new ForcedNames();
  /** Whether the proxy waits for a response, even an empty one. */
  responseRequired = false;
  /** Whether the first response reports the names that do not exist. */
  reportsMissing = false;
  /** Number of resources that the proxy has reported and that do not exist here. */
  reported = 0;
  inflight: Inflight | undefined;
  /** SotW: resources were removed without a response since the proxy acknowledged a version. */
  versionBehind = false;
  readonly #plans: Plans;
  readonly #missing = new MissingNames();
  /** Responses that count as accepted although the proxy has not answered them. This and the next ones: if any. */
  #presumed: Presumed | undefined;
  #rejections: Rejections | undefined;
  /** The parts of rejected responses that it may have applied. */
  #doubts: Doubts | undefined;
  /** The last complete response that the proxy rejected, which has the suspected resources. */
  #refused: Pick<Inflight, 'next' | 'changed'> | undefined;

  readonly #history = new History();
  #removalNonce = '';

  constructor(type: XdsType, plans: Plans) {
    this.type = type;
    this.#plans = plans;
  }

  get lastNonce(): string {
    return this.#history.lastNonce;
  }

  /** The message of the proxy's last NACK; '' if it has sent none. */
  get lastError(): string {
    return this.#history.lastError;
  }

  get rejections(): KnownRejections {
    return this.#rejections ?? NO_REJECTIONS;
  }

  get doubts(): KnownDoubts {
    return this.#doubts ?? NO_DOUBTS;
  }

  /** Whether responses count as accepted that the proxy has not answered. */
  get presumes(): boolean {
    return this.#presumed?.empty === false;
  }

  /** Records a response as sent. `full`: it replaces everything that the proxy has. */
  recordSent(nonce: string, plan: Plan, snapshot: number, full: boolean): void {
    this.inflight = {
      nonce,
      next: plan.next,
      changed: plan.changed,
      removed: plan.removed,
      forced: this.forced.in(plan),
      missing: plan.missing ?? [],
      responseRequired: this.responseRequired,
      snapshot,
      ofSearch: plan.ofSearch === true,
      full,
    };
    this.forced.answered(plan);
    this.responseRequired = false;
    this.#history.sent(nonce, snapshot);
  }

  /** Counts bytes on the wire, for the status. */
  countBytes(bytes: number): void {
    this.#history.countBytes(bytes);
  }

  /** Records the nonce and error of a request. */
  recordAnswer(nonce: string, nack: string | undefined, nowMs: number): Answer {
    if (nonce === '' || nonce === this.#removalNonce) return NO_ANSWER;
    const presumed = this.#presumed?.take(nonce);
    if (presumed !== undefined) return this.#answeredLate(presumed, nack, nowMs);
    const inflight = this.inflight;
    if (inflight === undefined) return nonce === this.lastNonce ? NO_ANSWER : { ...NO_ANSWER, kind: 'stale' };
    if (nonce !== inflight.nonce) return { ...NO_ANSWER, kind: 'stale' };
    this.inflight = undefined;
    if (nack === undefined) {
      this.#accepted(inflight);
      return ACKED;
    }
    const changed = inflight.changed.flat();
    this.#rejections ??= new Rejections();
    const { quarantined, everything } = this.#rejections.rejected(nack, changed);
    const named = quarantined.length > 0 ? quarantined : changed.map(({ name }) => name);
    this.#history.nacked(nonce, nack, nowMs, named);
    this.#afterNack(inflight, changed, { quarantined, everything });
    return { kind: 'nack', changed, quarantined };
  }

  /** The outstanding response counts as accepted until it is answered. */
  presumeAccepted(): void {
    const { inflight } = this;
    if (inflight === undefined || !this.rejections.empty) return;
    this.#presumed ??= new Presumed();
    if (!this.#presumed.add(inflight)) return;
    this.inflight = undefined;
    this.setState(inflight.next);
  }

  /** After a rejection its resources are sent again: the answer to that response decides about them. */
  #answeredLate({ nonce, snapshot, changed }: Inflight, nack: string | undefined, nowMs: number): Answer {
    if (nack === undefined) {
      this.#history.acked(nonce, snapshot, this.rejections.empty);
      return ACKED;
    }
    const names = changed.flat().map(({ name }) => name);
    this.#history.nacked(nonce, nack, nowMs, names);
    this.forgetVersions(names);
    return { kind: 'nack', changed: changed.flat(), quarantined: [] };
  }

  #accepted(inflight: Inflight): void {
    const again = this.#rejections?.acknowledged(inflight.changed.length) === true;
    if (inflight.ofSearch) {
      this.state = inflight.next;
      if (inflight.full) this.#doubts = undefined;
      else this.#doubts?.settle(inflight.changed.flat());
    } else this.setState(inflight.next);
    if (again) this.setState({ bases: [], overlay: keptOf(inflight.next) });
    this.versionBehind = false;
    this.#history.acked(inflight.nonce, inflight.snapshot, this.rejections.empty);
  }

  /**
   * All but the rejected resources are sent again: Envoy may have applied the other resources, but does not record
   * their versions as received, and so would be sent them when it reconnects.
   */
  #afterNack(inflight: Inflight, changed: readonly EncodedResource[], { quarantined, everything }: Rejection): void {
    // A rejected removal cannot be quarantined name by name, and would be rejected again.
    if (changed.length === 0) {
      this.setState(inflight.next);
      return;
    }
    this.responseRequired ||= inflight.responseRequired;
    if (inflight.missing.length > 0) this.forced.addLater(inflight.missing);
    if (!inflight.ofSearch) {
      this.#refused = { next: inflight.next, changed: inflight.changed };
      this.#doubts ??= new Doubts();
      this.#doubts.addResponse(this.state, inflight.next, quarantined);
    }
    if (!everything || this.#refused === undefined) {
      for (const name of inflight.forced) this.forced.add(name);
      return;
    }
    // It counts as delivered: from here on, only changes are sent.
    const { next, changed: refused } = this.#refused;
    for (const list of refused.lists) for (const { name } of list) this.forced.delete(name);
    this.setState({ bases: next.bases, overlay: keptOf(next) });
  }

  /** Records a response that only removes resources, which are sent again after it; its answer is ignored. */
  recordRemoval(nonce: string, removed: readonly string[]): void {
    this.#removalNonce = nonce;
    this.forgetVersions(removed);
  }

  /** The proxy may have dropped the resources with these names, or `sent` is still on its way to it. */
  forgetVersions(names: readonly string[], sent = NOTHING_SENT): void {
    this.#change((state) => withUnknownVersions(state, names, sent));
  }

  /** Changes the state of the proxy, and the state that it would have if it had accepted the outstanding response. */
  #change(change: (state: ClientState) => ClientState): void {
    this.state = change(this.state);
    if (this.inflight !== undefined) this.inflight.next = change(this.inflight.next);
    if (this.#refused !== undefined) this.#refused = { ...this.#refused, next: change(this.#refused.next) };
  }

  /** The proxy may have recorded the resource as received. */
  mayHave(name: string): boolean {
    return (
      this.known(name) !== undefined ||
      (this.inflight !== undefined && knownResource(this.inflight.next, name) !== undefined)
    );
  }

  /** What was sent and is not answered, even if it counts as accepted. */
  get unanswered(): SentResources {
    return (this.#presumed ?? new Presumed()).sentWith(this.inflight);
  }

  /**
   * Starts over, as if the proxy had not subscribed and had been sent nothing.
   * @returns names in the response that is outstanding
   */
  reset(): readonly string[] {
    const sent = this.inflight?.changed.flat().map(({ name }) => name) ?? [];
    this.interest = undefined;
    this.inflight = undefined;
    this.#presumed = undefined;
    this.forced.clear();
    this.#missing.clear();
    this.responseRequired = false;
    this.setState(EMPTY_STATE);
    return sent;
  }

  /** The proxy may have applied some version of these names. */
  markUncertain(names: readonly string[]): void {
    if (names.length === 0) return;
    this.#doubts ??= new Doubts();
    this.#doubts.addNames(names);
  }

  /** Records that the plan needs no response. */
  recordSkipped(plan: Plan): void {
    // None of the suspected resources exists any more.
    if (plan.ofSearch === true) {
      this.#rejections?.next();
      return;
    }
    if (plan.removed.some((name) => this.known(name) !== undefined)) this.versionBehind = true;
    this.resume(plan.next);
    this.forced.answered(plan);
  }

  /** The proxy was found to have this state, without being sent anything. */
  resume(state: ClientState): void {
    this.#history.foundCurrent();
    this.setState(state);
  }

  setState(state: ClientState): void {
    this.state = state;
    this.#doubts = undefined;
    this.#refused = undefined;
  }

  /** The version of a resource that the proxy has, if known. */
  known(name: string): KnownResource | undefined {
    const known = knownResource(this.state, name);
    return this.doubts.concern(name) ? { version: UNKNOWN_VERSION, resource: known?.resource } : known;
  }

  /**
   * Changes the subscription. The proxy does not have resources that it did not subscribe to before, whatever the
   * bundles have: added names have to be passed to {@link force}; a new wildcard is handled here.
   */
  subscribe(interest: Interest): void {
    const before = this.interest;
    this.interest = interest;
    if (before === undefined || before.wildcard || !interest.wildcard) return;
    this.responseRequired = true;
    this.#change((state) => limitedTo(state, before));
  }

  /** The proxy has these resources too, of names that this stream neither sent nor will send. */
  addKnown(resources: ReadonlyMap<string, KnownResource>): void {
    if (resources.size === 0) return;
    this.reported += resources.size;
    this.#change((state) => withResources(state, resources));
  }

  /**
   * The next responses must contain these names, to which the proxy subscribes now or again. The proxy does not have
   * them, unless the wildcard of `before` included them.
   */
  force({ size, names }: NameSet, before: Interest): void {
    if (size > PORTION) this.forced.requestLater(names);
    else this.#force([...names], before.wildcard);
  }

  #force(names: readonly string[], had: boolean): void {
    for (const name of names) this.forced.add(name);
    if (!had) this.#change((state) => withoutNames(state, names));
  }

  /** The proxy reconnected and has other versions of these names, or none, according to its state. */
  outdated(names: readonly string[], parts: readonly Bundle[]): void {
    const { overlay } = this.state;
    if (names.length <= PORTION) for (const name of names) this.forced.add(name);
    else this.forced.addLater(names.filter((name) => !overlay.has(name) && findResource(parts, name) === undefined));
  }

  /**
   * The plan of the next response. Resources that no longer exist are kept by the proxy as long as `removes` excludes
   * them.
   */
  plan(interest: Interest, parts: readonly Bundle[], removes: RemovalPolicy): Plan {
    if (this.rejections.searching) return planSearch(this, interest, parts);
    if (this.forced.hasLater)
      this.#force(
        this.forced.takeLater(
          (name) => covers(interest, name) && (this.reportsMissing || findResource(parts, name) !== undefined),
        ),
        interest.wildcard,
      );
    const plan = this.#plan(interest, parts, removes);
    if (this.reportsMissing && this.state === EMPTY_STATE) this.#missing.check(interest, plan);
    return this.#missing.added(
      plan,
      interest,
      (name) => !this.forced.has(name) && findResource(parts, name) === undefined,
    );
  }

  /** Whether names wait for a later response. */
  get hasMore(): boolean {
    return this.forced.hasLater || !this.#missing.checked;
  }

  #plan(interest: Interest, parts: readonly Bundle[], removes: RemovalPolicy): Plan {
    const { state } = this;
    const fresh = state === EMPTY_STATE;
    if (!this.rejections.empty) this.#rejections?.prune((name) => findResource(parts, name));
    if (
      this.doubts.empty &&
      this.forced.size === 0 &&
      state.overlay.size === 0 &&
      (this.rejections.empty || this.rejections.overwhelmed) &&
      (fresh || sameViews(state.bases, parts))
    )
      return (
        (fresh ? undefined : this.#plans.step(state, interest, parts)) ??
        this.#plans.whole(state, interest, parts, removes, fresh)
      );
    return planByName(this, interest, parts, removes);
  }

  /**
   * The snapshot version up to which the proxy has acknowledged everything; undefined if it has not requested the type.
   * @param complete the version of the parts
   */
  acknowledgedVersion(parts: readonly Bundle[], complete: number): number | undefined {
    if (this.interest === undefined) return undefined;
    return isUpToDate(this, parts) ? complete : Math.min(this.#history.versionComplete, complete);
  }

  /**
   * @param parts the resources that the proxy should have
   */
  status(parts: readonly Bundle[]): TypeStatus {
    const { interest } = this;
    return {
      ...this.#history.status(),
      subscribed: interest === undefined ? 'none' : interest.wildcard ? 'wildcard' : interest.names.size,
      current: interest !== undefined && isUpToDate(this, parts),
      quarantined: new Map(this.rejections.quarantined),
    };
  }
}
