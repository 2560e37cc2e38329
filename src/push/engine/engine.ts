/**
 * The push engine: takes published snapshots, has changed units generated once per view, and pushes to the proxies of
 * those views. It runs on the main thread and does nothing whose cost grows with (proxies x resources).
 *
 *   publish ─▶ changed facts ─┬─▶ units that read them ─jobs─▶ generator ─▶ commit (bundles) ─┬─▶ queue ─▶ sinks
 *                             └─▶ endpoints, which are encoded here at once ──────────────────┘
 */
import { messageOf, toCtlError } from '../../core/errors.ts';
import { TimeShares } from '../../core/fairness/time-shares.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import type { Slices } from '../../core/slices.ts';
import { XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import {
  ALL_UNITS,
  type ChangedFacts,
  changedFacts,
  type Placement,
  recorded,
  type View,
} from '../../generate/index.ts';
import type { ChangeSet, ModelChange, ServiceKey, Snapshot } from '../../model/index.ts';
import type { ResourceKey } from '../../resources/index.ts';
import { BundleTemplates, EndpointEncoder, Interner } from '../bundles/index.ts';
import type { GeneratedJob } from '../jobs/index.ts';
import { placementOf, viewsOf, withCurrentLabels } from '../proxies/index.ts';
import { mergedPush, type Push, type PushReason } from '../push.ts';
import {
  NOTHING_SHARED,
  type PlacedSessionView,
  QUANTUM_MS,
  Roster,
  Session,
  type SessionHost,
  SessionPushes,
  type SessionView,
} from '../sessions/index.ts';
import type { FailingView, ProxySession, PushEngine, PushSink, WithheldOfView } from '../types.ts';
import { ChangedHosts, type Encoders } from '../views/index.ts';
import { Canaries } from './canaries.ts';
import { type EngineOptions, type EngineStats, reportGeneration } from './engine-options.ts';
import { pushReasons } from './push-reasons.ts';
import { Retries } from './retries.ts';
import { type TouchedOptions, type TouchedPart, touchedParts } from './touched.ts';
import { isWanted, ViewTable } from './view-table.ts';
import { type ReadUnits, type Reason, reasonsFor, sessionsReading, withMakers } from './why.ts';

/** The proxy with its current labels, its views and its placement. */
type Assignment = Readonly<{ node: ProxyNode; views: readonly View[]; placement: Placement }>;

const [NO_TYPES, NO_REASONS]: [ReadonlySet<XdsType>, ReadonlySet<PushReason>] = [new Set(), new Set()];
const FOR_PROXY: ReadonlySet<PushReason> = new Set(['proxy']);
const EDS_ONLY: ReadonlySet<XdsType> = new Set(['eds']);
const HOSTS_ONLY: ReadonlySet<XdsType> = new Set(['vhds']);

export class Engine implements PushEngine, SessionHost {
  /** The time of the main thread that callers have used, by pushes and by work of their streams. */
  readonly shares = new TimeShares(QUANTUM_MS);
  readonly #options: EngineOptions;
  readonly #pushes: SessionPushes;
  readonly #interner = new Interner();
  readonly #encoders: Encoders = {
    interner: this.#interner,
    endpoints: new EndpointEncoder(this.#interner, (...ignored) => this.#options.observer.labelsIgnored(...ignored)),
    templates: new BundleTemplates(),
  };
  readonly #views: ViewTable;
  readonly #retries: Retries;
  readonly #roster = new Roster();
  readonly #canaries: Canaries;
  shared = NOTHING_SHARED;
  #snapshot: Snapshot;
  #connections = 0;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#snapshot = options.snapshot;
    const { now, later, random, scopes, laterClusters, leadsTo } = options;
    const onReleased = (scope: string): void => options.generator.released([scope]);
    // After the current call, which may be changing the view.
    const onWanted = (view: SessionView): void => queueMicrotask(() => this.#dispatch(view));
    const snapshot = (): Snapshot => this.#snapshot;
    this.#views = new ViewTable({ scopes, onReleased, snapshot, laterClusters, leadsTo, onWanted });
    this.#retries = new Retries({ now, later, random, onDue: (key) => this.#dispatch(this.#views.get(key)) });
    this.#pushes = new SessionPushes({
      throttle: options.throttle,
      shares: this.shares,
      now: options.now,
      version: () => this.version,
      waited: (milliseconds) => options.observer.queueWaited(milliseconds),
    });
    this.#canaries = new Canaries(options, this.#pushes, () => this.version);
  }

  get version(): number {
    return this.#snapshot.version;
  }

  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** Live views, for the debug interface and metrics. */
  views(): Iterable<SessionView> {
    return this.#views.all();
  }

  sessions(): Iterable<Session> {
    return this.#roster.all;
  }

  /** The inputs from which a proxy's resource of this name was generated; empty if it has none. */
  reasonsFor(session: Session, name: string): readonly Reason[] {
    const views = session.allViews.map(({ view }) => view);
    return reasonsFor(name, views, this.#snapshot, this.#views.reads);
  }

  /** The sessions whose configuration was generated from a document, and for which units it was read. */
  readersOf(document: ResourceKey): ReadonlyMap<Session, readonly ReadUnits[]> {
    return sessionsReading(document, this.#views.all(), this.#snapshot, this.#views.reads);
  }

  /** The parts of proxies that a change of the current snapshot would touch. Nothing is published. */
  touchedBy(change: ModelChange, isSeen: TouchedOptions['isSeen']): Slices<readonly TouchedPart[]> {
    return touchedParts({ previous: this.#snapshot, change, views: this.#views, roster: this.#roster, isSeen });
  }

  stats(): EngineStats {
    const { waiting, underWay } = this.#pushes;
    return {
      queued: waiting,
      underWay,
      views: this.#views.size,
      interned: this.#interner.size,
      facts: this.#views.reads.facts,
    };
  }

  /** Resources that canaries have rejected, which the other proxies of their views do not get. */
  withheld(): readonly WithheldOfView[] {
    return [...this.#views.all()].flatMap((view) =>
      withMakers(this.#canaries.withheld(view), view, this.#snapshot, this.#views.reads),
    );
  }

  withheldCounts(): ReadonlyMap<XdsType, number> {
    return this.#canaries.withheldCounts(this.#views.all());
  }

  /** Views that cannot be generated at present. */
  failing(): FailingView[] {
    return this.#retries.all();
  }

  now(): number {
    return this.#options.now();
  }

  answered(session: Session): void {
    this.#canaries.answered(session);
  }

  converged(milliseconds: number): void {
    this.#options.observer.converged(milliseconds);
  }

  pushBegan({ connectionId }: Session, { eventTime }: Push): void {
    this.#options.observer.pushBegan(connectionId, eventTime);
  }

  pushEnded({ connectionId }: Session, milliseconds: number | undefined): void {
    this.#options.observer.pushEnded(connectionId, milliseconds);
  }

  connect(node: ProxyNode, sink: PushSink, caller: string, types: readonly XdsType[] = XDS_TYPES): ProxySession {
    const { value: found, facts } = recorded(() => this.#assignmentOf(node));
    this.#views.admit(caller, found.node, found.views, found.placement);
    const connectionId = `${node.id}-${++this.#connections}`;
    const session = new Session({ node: found.node, caller, connectionId, sink }, types, this);
    this.#roster.add(session);
    this.#roster.note(session, facts);
    try {
      this.#assign(session, found, this.#push(FOR_PROXY));
    } catch (error) {
      session.close();
      throw error;
    }
    return session;
  }

  request(session: Session, types: Iterable<XdsType>): void {
    if (!this.#roster.all.has(session)) return;
    this.#pushes.pushRequested(session, this.#push(FOR_PROXY, new Set(types)));
  }

  need(session: Session): void {
    const push = this.#push(FOR_PROXY);
    for (const view of session.allViews) this.#ensureGenerated(view, session, push);
  }

  /** A push that no event of a source has caused. */
  #push(reasons: ReadonlySet<PushReason>, types = NO_TYPES): Push {
    return { types, version: this.version, eventTime: this.now(), reasons };
  }

  enter(view: PlacedSessionView, session: Session): void {
    this.#views.enter(view, session);
  }

  leave(placed: PlacedSessionView, session: Session): void {
    const { view } = placed;
    const wasLast = this.#views.leave(placed, session, this.now());
    this.#canaries.left(view, session);
    if (!wasLast) return;
    // The job is no longer needed: it should not delay others.
    if (view.inFlight && this.#options.generator.withdraw(view)) {
      view.postpone();
      this.#views.reads.end(view);
    }
    // The dirty units have to be generated before another session may have the view.
    if (view.isDirty) view.built = false;
  }

  closed(session: Session): void {
    this.#roster.delete(session);
    this.#pushes.remove(session);
    this.#views.sweep(this.now());
  }

  /**
   * Takes over the next snapshot. Endpoint changes are queued when this returns, other changes when they are generated.
   * Never throws because of the content of a snapshot: a view or proxy for which something fails keeps its state.
   */
  publish({ snapshot, changes, delta, eventTime }: ModelChange): void {
    const reasons = pushReasons(changes);
    const started = this.now();
    const previous = this.#snapshot;
    this.#snapshot = snapshot;
    this.#options.generator.advance(snapshot, delta);
    for (const reason of reasons) this.#options.observer.triggered(reason);
    const withNewEndpoints = this.#updateEndpoints(changes.endpoints);
    const changed = this.#changedFacts(previous, changes);
    const push: Push = { types: NO_TYPES, version: this.version, eventTime, reasons };
    const dirty = this.#views.reads.touchedBy({ changed, push }, this.#views.all());
    for (const [view, units] of dirty) view.markDirty(units, push);
    const changedHosts = new ChangedHosts(changed);
    for (const view of this.#views.all())
      if (view.later !== undefined) this.#guarded(`clusters of ${view.key}`, () => view.classify(changedHosts));
    this.#retries.publish(changed, changes, (key) => this.#views.get(key)?.view);
    // Before views are dispatched: a view that all its sessions are leaving need not be generated.
    const moving = new Set<Session>();
    const ofEndpoints = { ...push, types: EDS_ONLY };
    for (const session of this.#roster.displacedBy(previous, snapshot, changes)) {
      moving.add(session);
      const { value: found, facts } = recorded(() =>
        this.#guarded(`views of ${session.node.id}`, () => this.#assignmentOf(session.node)),
      );
      if (found !== undefined) this.#roster.relabel(session, found.node);
      this.#roster.note(session, facts);
      // Its current views have new endpoints that it was not sent. If its next views have the same endpoints, the
      // difference to these does not include them.
      const own = session.allViews.some((view) => withNewEndpoints.has(view)) ? ofEndpoints : push;
      if (found !== undefined) this.#guarded(`views of ${session.node.id}`, () => this.#assign(session, found, own));
    }
    for (const view of dirty.keys()) this.#dispatch(view);
    this.#views.sweep(this.now());
    this.#options.observer.stage('views', this.now() - started);
    // Only after everything is marked dirty: a push that ends at once must not count as the last push of the change.
    for (const [view, names] of withNewEndpoints) {
      for (const session of view.holdersOf(names)) {
        if (!session.has(view)) continue;
        // A session that leaves the view by this change is pushed with its move: its next views may have the endpoints
        // that it has now.
        if (moving.has(session) && this.#isAboutToMove(session))
          session.postpone(mergedPush(ofEndpoints, session.takePostponed()));
        else this.#pushes.pushChange(session, ofEndpoints);
      }
    }
  }

  /** True when the session moves as soon as running jobs are done. */
  #isAboutToMove(session: Session): boolean {
    if (!session.isMoving || session.allViews.some((placed) => placed.isAwaitedBy(session))) return false;
    return !session.allViews.some(({ view }) => this.#retries.blocked(view.key) !== undefined);
  }

  /** The facts that changed; when that cannot be determined, everything. */
  #changedFacts(previous: Snapshot, changes: ChangeSet): ChangedFacts {
    const changed = this.#guarded('what changed', () => changedFacts(previous, this.#snapshot, changes));
    return changed ?? { everything: true, meshWide: new Map(), scopes: new Map() };
  }

  /** Encodes changed endpoints; returns their names, by the view with new endpoints in each placement concerned. */
  #updateEndpoints(services: ReadonlySet<ServiceKey>): ReadonlyMap<PlacedSessionView, readonly string[]> {
    const started = this.now();
    const { found, changed, failures } = this.#views.updateEndpoints(services, this.#encoders);
    for (const { message, type } of failures) this.#options.observer.failed(message, type);
    this.#canaries.endpointsChanged(new Set(Array.from(changed.keys(), ({ view }) => view)));
    if (found) this.#options.observer.generated('eds', this.now() - started);
    return changed;
  }

  /** Runs work for one view or proxy; an error is reported and does not propagate. */
  #guarded<T>(what: string, work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#options.observer.failed(`${what}: ${messageOf(error)}`);
      return undefined;
    }
  }

  /** The views and placement of a proxy in the current snapshot. */
  #assignmentOf(known: ProxyNode): Assignment {
    const node = withCurrentLabels(this.#snapshot, known);
    return { node, views: viewsOf(this.#snapshot, node), placement: placementOf(this.#snapshot, node) };
  }

  /**
   * Moves a session to its views in the current snapshot, at once or when they are built.
   * @param change what changed in its current views and was not pushed yet
   */
  #assign(session: Session, { views, placement }: Assignment, change: Push): void {
    const wanted = views.map((view) => this.#views.take(view, placement, session.views));
    session.want(wanted);
    for (const view of wanted) this.#ensureGenerated(view, session, change);
    if (this.#pushes.move(session, change) || session.isMoving) return;
    // It keeps its views.
    this.#pushes.pushPostponed(session);
  }

  /** Generates the types of a view that a session needs. */
  #ensureGenerated(placed: PlacedSessionView, session: Session, push: Push): void {
    const { view, initialized } = placed;
    view.request(session.types, push);
    if (!view.built && !view.inFlight && !view.isDirty) view.markDirty(ALL_UNITS, push);
    const failures = view.beginPlacement(placed, this.#snapshot, this.#encoders, push);
    for (const { message, type } of failures) this.#options.observer.failed(message, type);
    this.#canaries.placed(view, initialized || !placed.initialized ? undefined : placed);
    this.#dispatch(view);
    // The next attempt may be minutes away: the stream ends with the reason, and the proxy reconnects.
    const blocked = placed.serves(session.types) ? undefined : this.#retries.blocked(view.key);
    if (blocked !== undefined) session.fail(blocked);
  }

  /** @param view undefined: it is gone */
  #dispatch(view: SessionView | undefined): void {
    if (view === undefined || view.inFlight || !view.isDirty) return;
    if (view.sessions.size === 0) {
      // No session has the view: it is generated, with all later changes, when one does.
      view.built = false;
      return;
    }
    if (!isWanted(view) || this.#retries.blocked(view.key) !== undefined) return;
    view.begin();
    this.#views.reads.begin(view, this.version);
    this.#options.generator
      .submit(view, { isolated: this.#retries.isFailing(view.key) })
      .then((result) => this.#commit(view, result))
      .catch((error: unknown) => this.#abandon(view, error));
  }

  #commit(view: SessionView, job: GeneratedJob): void {
    const started = this.now();
    const { observer } = this.#options;
    reportGeneration(job, observer);
    if (job.answer.gone || view.needsClusters(job, this.#encoders)) {
      view.postpone();
      this.#views.reads.end(view);
      this.#dispatch(view);
      return;
    }
    const prepared = this.#canaries.prepare(view);
    const { push = this.#push(FOR_PROXY), failures, first, found } = view.commit(job, this.#snapshot, this.#encoders);
    for (const [units, late] of this.#views.reads.commit(view, job)) view.markDirty(units, late);
    this.#views.reads.end(view);
    for (const { message, type } of failures) observer.failed(message, type);
    const failed = this.#retries.succeeded(view.key);
    if (failed > 0) observer.viewRecovered(view.key, failed);
    observer.stage('intern', this.now() - started);
    this.#canaries.committed(view, prepared, { ...push, types: NO_TYPES, version: this.version }, first);
    for (const placed of view.placements())
      for (const session of placed.awaiting(found)) this.request(session, HOSTS_ONLY);
    this.#dispatch(view);
  }

  #abandon(view: SessionView, error: unknown): void {
    const cause = toCtlError(error);
    view.abandon(cause);
    this.#views.reads.end(view);
    if (cause.code === 'unavailable') return;
    this.#options.observer.viewFailed(this.#retries.failed(view.key, cause), view.dirtyTypes());
    const push = this.#push(NO_REASONS);
    for (const session of view.sessions) {
      const waits = session.allViews.some((placed) => placed.view === view && !placed.serves(session.types));
      if (waits) session.fail(cause);
      if (view.built && !this.#pushes.move(session, push)) this.#pushes.commit(session, view, push);
      // It is unknown when it will move.
      if (session.isMoving) this.#pushes.pushPostponed(session);
    }
  }
}
