/**
 * The configuration of a proxy that asks for what it uses. Envoy asks for a virtual host when a request needs it, and
 * the proxy gets the host with the clusters that it leads to, in the order of all changes: clusters, endpoints, host.
 *
 * A proxy keeps what it was sent, also over a reconnect: Envoy does not ask again for what was taken away.
 */
import type { XdsType } from '../../core/xds-types.ts';
import type { OnDemand } from '../../generate/index.ts';
import {
  type Bundle,
  type DemandStatus,
  type LaterClusters,
  type LaterHosts,
  type Parts,
  scopeOfKey,
} from '../../push/index.ts';
import { addedNames, type DeltaRequest, type NameSet, NO_NAMES } from '../protocol/index.ts';
import { AnswerTimes } from './answer-times.ts';
import type { AskEvent } from './ask-events.ts';
import { AskLog } from './ask-log.ts';
import { AskedNames, clustersIn, hostsIn, MAX_ASKED } from './asked-names.ts';
import { isOutbound } from './cluster-names.ts';
import { ContentIds } from './content-ids.ts';
import { type Demanded, DemandParts } from './demand-parts.ts';
import { countsOf, Held, type Wants } from './held.ts';
import type { HeldContent } from './held-content.ts';
import { LearnedCount } from './learned-count.ts';
import type { LearningProxy } from './learned-hosts.ts';
import { answerName } from './own-names.ts';
import { outboundOf, type SharedDemand } from './shared-demand.ts';
import type { Asking, Given, StreamDemand } from './stream-demand.ts';

const WILDCARD = '*';

/** Types that lead to clusters without having been asked for: the first response has these clusters. */
export const ALWAYS_NEEDED: readonly XdsType[] = ['lds', 'ecds'];

/** What a proxy gets is made for these, in their meaning in {@link Demand}. */
type Names = Readonly<Record<'asked' | 'askedClusters' | 'given' | 'kept' | 'awaited', NameSet>>;

/** The inputs of {@link Demand.parts}, and what it returned. */
interface Last extends Names {
  readonly content: ContentIds;
  /** The bundle of virtual hosts in the content, by its number. */
  readonly hosts: number | undefined;
  readonly parts: Parts;
}

function isSame(one: Names, other: Names): boolean {
  // A proxy may ask for a cluster that was given to it and that was removed: `kept` has it already.
  const isSameAsked = one.asked === other.asked && one.askedClusters === other.askedClusters;
  return isSameAsked && one.given === other.given && one.kept === other.kept && one.awaited === other.awaited;
}

export class Demand implements StreamDemand<DeltaRequest>, LearningProxy {
  readonly #shared: SharedDemand;
  readonly #onEvent: (event: AskEvent) => void;
  readonly answers = new AnswerTimes();
  readonly #asked: AskedNames;
  /** Virtual hosts that it has without having asked on this stream: it had them before, or others have asked. */
  #given = NO_NAMES;
  /** Virtual hosts and clusters that it had before this stream. */
  #reported = NO_NAMES;
  #reportedClusters = NO_NAMES;
  readonly #learned: LearnedCount;
  /** It has reported the clusters that it had, of which none may be outbound. */
  #hasReportedClusters = false;
  readonly #log = new AskLog(MAX_ASKED);
  /** How many of {@link #log} were counted. */
  #counted = 0;
  #workload = '';
  /** Names that it would ask for to get what it gets without asking. */
  #named = NO_NAMES;
  /** Clusters that it has without virtual hosts: it had them before this stream, or it or others have asked for them. */
  #kept = NO_NAMES;
  /** Of what it has asked for, what others learn. */
  #used = NO_NAMES;
  #wake = (): void => {};
  /** The scope whose learned hosts it gets. */
  #following: { readonly scope: string; readonly leave: () => void } | undefined;
  /** The virtual hosts of a bundle, by its number, for what it has asked for. */
  #lastAsked: { readonly of: number; readonly asked: NameSet; readonly hosts: NameSet } | undefined;
  /** It was sent everything, of which nothing is taken away. */
  #isWhole = false;
  /** What it has asked for is too large. */
  #isTooLarge = false;
  /** Number of virtual hosts of its mesh. */
  #size = 0;
  #last: Last | undefined;
  readonly #parts: DemandParts;
  /** Clusters that have to be generated before it gets virtual hosts. */
  #awaited = NO_NAMES;
  /** All clusters for these are generated. */
  #usableOf: { readonly of: number; readonly given: NameSet; readonly kept: NameSet } | undefined;

  constructor(shared: SharedDemand, onEvent: (event: AskEvent) => void) {
    this.#shared = shared;
    this.#asked = new AskedNames(shared.names);
    this.#learned = new LearnedCount(shared.names);
    this.#parts = new DemandParts(shared);
    this.#onEvent = onEvent;
  }

  namesOf(type: XdsType, subscribed: NameSet): NameSet {
    return this.#asked.kept(type, subscribed);
  }

  get held(): readonly NameSet[] | undefined {
    return this.#parts.held;
  }

  /** The virtual hosts among them, and clusters that it has asked for. */
  get used(): NameSet {
    return this.#used;
  }

  begin(wake: () => void): void {
    this.#wake = wake;
  }

  end(): void {
    this.#following?.leave();
    this.#following = undefined;
  }

  wake(): void {
    this.#wake();
  }

  /**
   * Takes the names of a request for virtual hosts, and the clusters that a proxy has when it connects.
   * @returns the request as of a proxy that subscribes to everything that it should have
   */
  receive(type: XdsType, request: DeltaRequest, asking: Asking): DeltaRequest {
    const { mode, workload } = asking;
    this.#workload = workload;
    if (mode === undefined && this.#asked.hosts.size === 0) return request;
    if (type === 'cds') this.#keep(request, asking);
    return type === 'vhds' ? this.#receiveHosts(request, asking) : request;
  }

  #keep({ initialVersions, subscribe }: DeltaRequest, { at, since }: Asking): void {
    if (initialVersions.size > 0) this.#hasReportedClusters = true;
    if (initialVersions.size === 0 && subscribe.size === 0) return;
    const { names } = this.#shared;
    const added = this.#asked.add('cds', subscribe);
    for (const name of added) this.#log.add(name, initialVersions.has(name) ? undefined : at);
    if (added.length > 0) this.#onEvent({ names: added.length });
    // Nobody waits for the answer to what a proxy lists when it connects again.
    if (initialVersions.size === 0) this.answers.asked('cds', added.length, since);
    const reported = clustersIn(initialVersions.keys());
    this.#reportedClusters = names.change(this.#reportedClusters, names.of(reported), NO_NAMES);
    this.#kept = names.change(this.#kept, names.of([...clustersIn(subscribe.names), ...reported]), NO_NAMES);
  }

  #receiveHosts(request: DeltaRequest, { at, since }: Asking): DeltaRequest {
    const { initialVersions, subscribe } = request;
    const { names } = this.#shared;
    const asked = hostsIn(subscribe.names);
    // Envoy asks again when a request was too late for the first answer, or finds no route.
    const again = asked.filter((name) => this.#asked.hosts.has(name)).map(answerName);
    const added = this.#asked.add('vhds', subscribe);
    for (const name of added) this.#log.add(name, initialVersions.has(answerName(name)) ? undefined : at);
    if (added.length > 0) this.#onEvent({ names: added.length });
    if (initialVersions.size === 0) this.answers.asked('vhds', asked.length, since);
    const reported = hostsIn(initialVersions.keys());
    this.#learned.isDue = true;
    if (reported.length > 0) {
      this.#reported = names.change(this.#reported, names.of(reported), NO_NAMES);
      this.#give(names.of(reported));
    }
    const subscribed = subscribe.has(WILDCARD) ? [...again, WILDCARD] : again;
    return { ...request, subscribe: names.of(subscribed), unsubscribe: NO_NAMES };
  }

  /**
   * What the proxy should have of its content; the same object while nothing changes.
   * @param mode undefined: everything
   */
  parts(content: Parts, mode: OnDemand | undefined, also: Given = {}): Parts {
    const { named = [], laterClusters, laterHosts } = also;
    if (mode === undefined || this.isOverLimit) this.#becomeWhole();
    const { hosts: asked, clusters: askedClusters } = this.#asked;
    if (this.#isWhole && asked.size === 0) return content;
    const isSameContent = this.#last?.content.match(content) === true;
    const hosts = outboundOf(content.vhds);
    if (hosts !== undefined) this.#count(hosts, mode);
    this.#size = laterHosts?.total ?? hosts?.size ?? 0;
    if (mode === 'learned' && hosts !== undefined) this.#learn(hosts, content.lds);
    else this.end();
    if (named.length > 0 && hosts !== undefined && !isSameContent) {
      this.#named = this.#shared.namesOf(content.rds, named);
      this.#give(this.#shared.hostsOf(hosts, this.#generated(this.#named, laterHosts)));
    }
    const given = this.#usable(hosts, laterClusters, laterHosts);
    const last = this.#last;
    const demand = { asked, askedClusters, given, kept: this.#kept, awaited: this.#awaited };
    const isSameDemand = last !== undefined && isSame(demand, last);
    if (isSameDemand && isSameContent) return last.parts;
    const parts = this.#isWhole
      ? this.#everything(content, hosts)
      : ((isSameDemand ? this.#parts.withEndpoints(content, last) : undefined) ??
        this.#parts.of(content, this.#demanded(hosts, given, laterClusters)));
    if (parts === undefined) return this.#tooLarge(content, mode, also);
    this.#last = { content: new ContentIds(content), hosts: hosts?.id, ...demand, parts };
    return parts;
  }

  /** It gets everything as soon as everything is generated, and until then what it had. */
  #tooLarge(content: Parts, mode: OnDemand | undefined, also: Given): Parts {
    const waits = [also.laterClusters?.need(undefined), also.laterHosts?.need(undefined, this)].filter((each) => each);
    if (waits.length > 0 && this.#last !== undefined) {
      Promise.all(waits).then(this.#wake, () => {});
      return this.#last.parts;
    }
    this.#isTooLarge = true;
    return this.parts(content, mode, also);
  }

  /** The virtual hosts that it gets without asking, without those whose clusters are to be generated yet. */
  #usable(hosts: Bundle | undefined, later: LaterClusters | undefined, laterHosts: LaterHosts | undefined): NameSet {
    this.#awaited = NO_NAMES;
    const [given, kept, usableBefore] = [this.#given, this.#kept, this.#usableOf];
    if (hosts === undefined || (later === undefined && laterHosts === undefined)) return given;
    // What is generated stays so.
    if (usableBefore?.of === hosts.id && usableBefore.given === given && usableBefore.kept === kept) return given;
    const { usable, awaited } = this.#shared.usable(hosts, { hosts: given, clusters: kept }, later, laterHosts);
    this.#awaited = awaited;
    this.#usableOf = awaited.size === 0 ? { of: hosts.id, given, kept } : undefined;
    return usable;
  }

  /** Those of these names of which the virtual hosts are generated; others are generated now. */
  #generated(names: NameSet, laterHosts: LaterHosts | undefined): NameSet {
    const open = laterHosts === undefined ? [] : [...names.names].filter((name) => laterHosts.has(name));
    if (open.length === 0) return names;
    laterHosts?.want(open);
    return this.#shared.names.change(names, NO_NAMES, this.#shared.names.of(open));
  }

  hostsFor(
    type: XdsType,
    { initialVersions, subscribe }: DeltaRequest,
    content: Parts,
    named: readonly string[],
  ): Iterable<string> | undefined {
    if (this.#isWhole || this.#wouldExceed(type, subscribe, content)) return undefined;
    if (type !== 'vhds') return [];
    const had = hostsIn(initialVersions.keys());
    if (had.length > MAX_ASKED) return undefined;
    const names = [...hostsIn(subscribe.names), ...had];
    return named.length === 0 ? names : [...names, ...this.#shared.namesOf(content.rds, named).names];
  }

  askedIn({ subscribe }: DeltaRequest): Iterable<string> {
    return subscribe.names;
  }

  clustersFor(
    type: XdsType,
    { initialVersions, subscribe }: DeltaRequest,
    content: Parts,
  ): Iterable<string> | undefined {
    const had = type === 'vhds' ? hostsIn(initialVersions.keys()).length : initialVersions.size;
    // It gets everything, or had much of it: one wait for all takes less memory than thousands of names for each proxy.
    if (this.#isWhole || had > MAX_ASKED || this.#wouldExceed(type, subscribe, content)) return undefined;
    // It has clusters, of which it has not said yet which: none of these may be taken away.
    if (had > 0 && type !== 'cds' && !this.#hasReportedClusters) return undefined;
    return this.#shared.clustersFor(type, { asked: subscribe, had: initialVersions.keys() }, content);
  }

  /** Whether it gets everything when it asks for these names. */
  #wouldExceed(type: XdsType, subscribe: NameSet, content: Parts): boolean {
    if (this.#asked.wouldExceed(type, subscribe)) return true;
    const hosts = type === 'vhds' ? outboundOf(content.vhds) : undefined;
    const added = this.#asked.newIn(type, subscribe);
    return hosts !== undefined && this.#shared.wouldBeTooLarge(hosts, this.#parts.madeBytes, added);
  }

  #becomeWhole(): void {
    this.#isWhole = true;
    this.#parts.clear();
  }

  giveAskable(content: Parts): void {
    const { names } = this.#shared;
    this.#kept = names.change(this.#kept, this.#shared.askableOf(content.lds), NO_NAMES);
  }

  /** Tells others what it has asked for, and takes what these have asked for. */
  #learn(hosts: Bundle, listeners: readonly Bundle[]): void {
    const { askers, learned, names } = this.#shared;
    const [size, scope] = [this.#size, scopeOfKey(hosts.viewKey)];
    if (this.#following?.scope !== scope) {
      this.end();
      this.#following = { scope, leave: learned.follow(scope, this) };
    }
    const [asked, last] = [this.#asked, this.#last];
    const isSame = last?.asked === asked.hosts && last.kept === this.#kept && last.hosts === hosts.id;
    if (asked.size > 0 && !isSame) {
      const askable = this.#shared.askableOf(listeners);
      const clusters = [...asked.clusters.names].filter((name) => askable.has(name));
      this.#used = names.change(this.#askedHostsOf(hosts), names.of(clusters), NO_NAMES);
      askers.note(scope, this.#used, learned.of(scope, size), this.#workload);
      learned.learn(scope, this.#used.names, size);
    }
    const others = names.outside(names.outside(learned.of(scope, size), this.#used), this.#given);
    this.#learned.add(others);
    const count = this.#learned.take(names.change(this.#reported, this.#reportedClusters, NO_NAMES));
    if (count > 0) this.#onEvent({ learned: count });
    this.#give(learned.of(scope, size));
  }

  /** The virtual hosts that it has asked for. */
  #askedHostsOf(hosts: Bundle): NameSet {
    const { names } = this.#shared;
    const { hosts: asked } = this.#asked;
    const last = this.#lastAsked;
    const added = last?.of === hosts.id ? addedNames(asked, last.asked) : undefined;
    const found =
      last === undefined || added === undefined
        ? this.#shared.hostsOf(hosts, asked)
        : names.change(last.hosts, this.#shared.hostsOf(hosts, names.of(added)), NO_NAMES);
    this.#lastAsked = { of: hosts.id, asked, hosts: found };
    return found;
  }

  /** Tells what became of the names that it has asked for since the last time. */
  #count(hosts: Bundle, mode: OnDemand | undefined): void {
    if (this.#counted === this.#log.size) return;
    let [unknown, missed] = [0, 0];
    for (const { name, at } of this.#log.asks(this.#counted)) {
      const host = isOutbound(name) ? name : this.#shared.knownHost(hosts, name);
      if (host === undefined) unknown++;
      else if (mode === 'learned' && at !== undefined && !this.#given.has(host)) missed++;
    }
    this.#counted = this.#log.size;
    if (unknown + missed > 0) this.#onEvent({ unknown, missed });
  }

  written(now: number): void {
    const answered = this.answers.written(now);
    if (answered.length > 0) this.#onEvent({ answered });
  }

  get hosts(): number {
    return this.#isWhole ? 0 : this.#parts.hosts;
  }

  get isOverLimit(): boolean {
    return this.#isTooLarge || this.#asked.isOverLimit;
  }

  /** @param given names of virtual hosts and clusters */
  #give(given: NameSet): void {
    const { names } = this.#shared;
    const all = names.change(this.#given, given, NO_NAMES);
    if (all === this.#given) return;
    this.#given = all;
    const clusters = [...given.names].filter(isOutbound);
    this.#kept = names.change(this.#kept, names.of(clusters), NO_NAMES);
  }

  /** Everything, with answers to what it has asked for: requests wait for them. */
  #everything(content: Parts, hosts: Bundle | undefined): Parts {
    const answered = (bundle: Bundle): Bundle => this.#shared.everything(bundle, this.#asked.hosts);
    return { ...content, vhds: content.vhds.map((bundle) => (bundle === hosts ? answered(bundle) : bundle)) };
  }

  #demanded(hosts: Bundle | undefined, given: NameSet, later?: LaterClusters): Demanded {
    return {
      hosts,
      asked: this.#asked.hosts,
      given,
      kept: this.#kept,
      askedClusters: this.#asked.clusters,
      concerning: [this.#given, this.#awaited, this.#named],
      later,
    };
  }

  #wants(content: Parts): Wants {
    const hosts = outboundOf(content.vhds);
    const named = hosts === undefined ? NO_NAMES : this.#shared.hostsOf(hosts, this.#named);
    return {
      log: this.#log,
      asked: this.#asked.hosts,
      askedClusters: this.#asked.clusters,
      given: this.#given,
      named,
      reported: this.#reported,
      reportedClusters: this.#reportedClusters,
      isWhole: this.#isWhole,
    };
  }

  status(content: Parts, mode: OnDemand | undefined): DemandStatus | undefined {
    if (mode === undefined) return undefined;
    const whole = this.isOverLimit ? 'limit' : this.#isWhole ? 'before' : undefined;
    return { mode, ...(whole && { whole }), ...countsOf(this.#shared, this.#wants(content), content) };
  }

  explain(content: Parts, parts: Parts, mode: OnDemand | undefined): HeldContent | undefined {
    if (mode === undefined) return undefined;
    const of = (other: Parts): Parts =>
      this.#isWhole
        ? other
        : (new DemandParts(this.#shared).of(other, this.#demanded(outboundOf(other.vhds), this.#given)) ?? other);
    return new Held({ shared: this.#shared, wants: this.#wants(content), full: content, held: parts, of });
  }
}
