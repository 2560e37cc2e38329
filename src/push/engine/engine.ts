/**
 * The push engine: takes published snapshots, has the units that changed generated once per view, and tells the proxies
 * that have those views. It runs on the main thread and does nothing whose cost grows with (proxies x resources).
 *
 *   publish ──▶ changed facts ──▶ units that read them ──jobs──▶ generator ──▶ commit (bundles) ──▶ queue ──▶ sinks
 *          └──▶ endpoints: encoded here, at once ────────────────────────────────────────────▶
 */
import { messageOf, toCtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { ALL_UNITS, type ChangedFacts, changedFacts, recorded, scopeIdOfView } from '../../generate/index.ts';
import { GENERATED_TYPES, type Placement, type View, XDS_TYPES, type XdsType } from '../../generate/types.ts';
import type { ChangeSet, Snapshot } from '../../model/types.ts';
import type { ResourceKey } from '../../resources/types.ts';
import { BundleTemplates, EndpointEncoder, Interner } from '../bundles/index.ts';
import type { GeneratedJob } from '../jobs/index.ts';
import { placementOf, viewsOf } from '../proxies/index.ts';
import {
  mergedPush,
  NOTHING_SHARED,
  type PlacedSessionView,
  type PostponedPush,
  Roster,
  Session,
  type SessionHost,
  SessionPushes,
  type SessionView,
} from '../sessions/index.ts';
import type { FailingView, ProxySession, PushEngine, PushReason, PushSink } from '../types.ts';
import type { Encoders } from '../views/index.ts';
import type { EngineOptions, Publication } from './engine-options.ts';
import { Retries } from './retries.ts';
import { ViewTable } from './view-table.ts';
import { type ReadUnits, type Reason, readersOfDocument, reasonsFor } from './why.ts';

/** The views of a proxy, and where it has them. */
interface Assignment {
  readonly views: readonly View[];
  readonly placement: Placement;
}

const NO_TYPES: ReadonlySet<XdsType> = new Set();
const NO_REASONS: ReadonlySet<PushReason> = new Set();
const EDS_ONLY: ReadonlySet<XdsType> = new Set(['eds']);

export class Engine implements PushEngine, SessionHost {
  readonly #options: EngineOptions;
  readonly #pushes: SessionPushes;
  readonly #interner = new Interner();
  readonly #encoders: Encoders = {
    interner: this.#interner,
    endpoints: new EndpointEncoder(this.#interner),
    templates: new BundleTemplates(),
  };
  readonly #views: ViewTable;
  readonly #retries: Retries;
  readonly #roster = new Roster();
  shared = NOTHING_SHARED;
  #snapshot: Snapshot;
  #connections = 0;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#snapshot = options.snapshot;
    const { now, later, random } = options;
    const onReleased = (scope: string): void => options.generator.released([scope]);
    this.#views = new ViewTable({ scopes: options.scopes, onReleased });
    this.#retries = new Retries({ now, later, random, onDue: (key) => this.#retry(key) });
    this.#pushes = new SessionPushes({
      throttle: options.throttle,
      now: options.now,
      version: () => this.version,
      waited: (milliseconds) => options.observer.queueWaited(milliseconds),
    });
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

  /** What a proxy's resource of this name is made of; empty for what it does not have. */
  reasonsFor(session: Session, name: string): readonly Reason[] {
    return reasonsFor(
      name,
      Array.from(session.allViews, ({ view }) => view),
      this.#snapshot,
      this.#views.reads,
    );
  }

  /** The sessions whose configuration a document was read for, and the units it was read for. */
  readersOf(document: ResourceKey): ReadonlyMap<Session, readonly ReadUnits[]> {
    const found = new Map<Session, ReadUnits[]>();
    for (const [view, units] of readersOfDocument(document, this.#views.all(), this.#snapshot, this.#views.reads)) {
      for (const session of view.sessions) found.set(session, [...(found.get(session) ?? []), units]);
    }
    return found;
  }

  stats(): {
    readonly queued: number;
    readonly underWay: number;
    readonly views: number;
    readonly interned: number;
    /** Facts that were read for some view. */
    readonly facts: number;
  } {
    const { waiting, underWay } = this.#pushes;
    return {
      queued: waiting,
      underWay,
      views: this.#views.size,
      interned: this.#interner.size,
      facts: this.#views.reads.facts,
    };
  }

  /** Views that cannot be generated at present. */
  failing(): FailingView[] {
    return this.#retries.all();
  }

  now(): number {
    return this.#options.now();
  }

  converged(milliseconds: number): void {
    this.#options.observer.converged(milliseconds);
  }

  pushBegan(): void {
    this.#options.observer.pushBegan();
  }

  pushEnded({ connectionId }: Session, milliseconds: number | undefined): void {
    this.#options.observer.pushEnded(connectionId, milliseconds);
  }

  connect(node: ProxyNode, sink: PushSink, caller: string, types: readonly XdsType[] = XDS_TYPES): ProxySession {
    const { value: found, facts } = recorded(() => this.#assignmentOf(node));
    this.#views.admit(caller, found.views, found.placement);
    const connectionId = `${node.id}-${++this.#connections}`;
    const session = new Session({ node, caller, connectionId, sink }, types, this);
    this.#roster.add(session);
    this.#roster.note(session, facts);
    try {
      this.#assign(session, found, { types: NO_TYPES, eventTime: this.now(), reasons: new Set(['proxy']) });
    } catch (error) {
      session.close();
      throw error;
    }
    return session;
  }

  request(session: Session, types: Iterable<XdsType>): void {
    if (!this.#roster.all.has(session)) return;
    const reasons: ReadonlySet<PushReason> = new Set(['proxy']);
    this.#pushes.pushRequested(session, { types: new Set(types), eventTime: this.now(), reasons });
  }

  need(session: Session): void {
    for (const view of session.allViews) this.#ensureGenerated(view, session, this.now(), ['proxy']);
  }

  enter(view: PlacedSessionView, session: Session): void {
    this.#views.enter(view, session);
  }

  leave(placed: PlacedSessionView, session: Session): void {
    if (!this.#views.leave(placed, session, this.now())) return;
    const { view } = placed;
    // Nobody waits for the job any more: it is not to keep others waiting.
    if (view.inFlight && this.#options.generator.withdraw(view)) {
      view.postpone();
      this.#views.reads.end(view);
    }
    // What it missed has to be generated before somebody is given it again.
    if (view.isDirty) view.built = false;
  }

  closed(session: Session): void {
    this.#roster.delete(session);
    this.#pushes.remove(session);
    this.#views.sweep(this.now());
  }

  /**
   * Takes the next snapshot over. Endpoint changes are on their way when this returns, the rest when it is generated.
   * Never throws for what stands in the snapshot: what cannot be worked out for one view or proxy leaves that one as it
   * is.
   */
  publish(publication: Publication): void {
    const { snapshot, changes, eventTime, reasons } = publication;
    const started = this.now();
    const previous = this.#snapshot;
    this.#snapshot = snapshot;
    this.#options.generator.advance(snapshot, publication.delta);
    for (const reason of reasons) this.#options.observer.triggered(reason);
    const withNewEndpoints = new Set(this.#updateEndpoints(this.#views.reads.withClustersOf(changes.endpoints)));
    const changed = this.#changedFacts(previous, changes);
    const dirty = this.#views.reads.touchedBy(
      { version: snapshot.version, changed, eventTime, reasons },
      this.#views.all(),
    );
    for (const [view, units] of dirty) view.markDirty(units, eventTime, reasons);
    this.#noteForRetries(changed, changes);
    // Before the views are generated: nobody wants one that all its sessions are leaving.
    const moving = new Set<Session>();
    for (const session of this.#roster.displacedBy(previous, snapshot, changes)) {
      moving.add(session);
      const { value: found, facts } = recorded(() =>
        this.#guarded(`views of ${session.node.id}`, () => this.#assignmentOf(session.node)),
      );
      this.#roster.note(session, facts);
      // Not told yet: were they those of its next views, nothing would be seen of it when it moves there.
      const types = session.allViews.some((view) => withNewEndpoints.has(view)) ? EDS_ONLY : NO_TYPES;
      if (found !== undefined)
        this.#guarded(`views of ${session.node.id}`, () => this.#assign(session, found, { types, eventTime, reasons }));
    }
    for (const view of dirty.keys()) this.#dispatch(view);
    this.#views.sweep(this.now());
    this.#options.observer.stage('views', this.now() - started);
    // Not before it is known what else is on its way: pushes that end at once may be the last that a proxy needs.
    const push = { types: EDS_ONLY, eventTime, reasons };
    for (const view of withNewEndpoints) {
      for (const session of view.sessions) {
        if (!session.has(view)) continue;
        // Who leaves the view by this very change is told with its move: the endpoints of its next views may be those
        // that it has.
        if (moving.has(session) && this.#isAboutToMove(session))
          session.postpone(mergedPush(push, session.takePostponed()));
        else this.#pushes.pushChange(session, push);
      }
    }
  }

  /** True when the session moves as soon as jobs are done that are under way. */
  #isAboutToMove(session: Session): boolean {
    return session.isMoving && !session.allViews.some(({ view }) => this.#retries.blocked(view.key) !== undefined);
  }

  /** What a failed attempt has read is not known: any change that may concern the view may be what mends it. */
  #noteForRetries({ everything, scopes }: ChangedFacts, { configs }: ChangeSet): void {
    for (const { view: key } of this.#retries.all()) {
      const view = this.#views.get(key);
      if (view === undefined) continue;
      if (everything || configs.size > 0 || scopes.has(scopeIdOfView(view.view))) this.#retries.changed(key);
    }
  }

  /** Which facts changed; where that cannot be worked out, all may have. */
  #changedFacts(previous: Snapshot, changes: ChangeSet): ChangedFacts {
    const changed = this.#guarded('what changed', () => changedFacts(previous, this.#snapshot, changes));
    return changed ?? { everything: true, meshWide: new Map(), scopes: new Map() };
  }

  /**
   * Encodes changed endpoints; returns the views that have others than before, in the placements in which they have.
   */
  #updateEndpoints(concerned: ReadonlyMap<SessionView, readonly string[]>): PlacedSessionView[] {
    const changed: PlacedSessionView[] = [];
    const started = this.now();
    for (const [view, hostnames] of concerned) {
      const update = view.updateEndpoints(hostnames, this.#snapshot, this.#encoders);
      for (const { message, type } of update.failures) this.#options.observer.failed(message, type);
      changed.push(...update.changed);
    }
    if (concerned.size > 0) this.#options.observer.generated('eds', this.now() - started);
    return changed;
  }

  /** Does work about one view or proxy; its fault is reported and goes no further. */
  #guarded<T>(what: string, work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#options.observer.failed(`${what}: ${messageOf(error)}`);
      return undefined;
    }
  }

  /** Where a proxy belongs in the current snapshot. */
  #assignmentOf(node: ProxyNode): Assignment {
    return { views: viewsOf(this.#snapshot, node), placement: placementOf(this.#snapshot, node) };
  }

  /**
   * Moves a session to its views in the current snapshot, at once or when they are built.
   * @param change what of its present views it has not been told yet
   */
  #assign(session: Session, { views, placement }: Assignment, change: PostponedPush): void {
    const wanted = views.map((view) => this.#views.take(view, placement));
    session.want(wanted);
    for (const view of wanted) this.#ensureGenerated(view, session, change.eventTime, change.reasons);
    if (this.#pushes.move(session, change) || session.isMoving) return;
    // It stays where it is after all.
    this.#pushes.pushPostponed(session);
  }

  /** Has generated of a view what a session needs of it. */
  #ensureGenerated(
    placed: PlacedSessionView,
    session: Session,
    eventTime: number,
    reasons: Iterable<PushReason>,
  ): void {
    const { view } = placed;
    view.request(session.types, eventTime, reasons);
    if (!view.built && !view.inFlight && !view.isDirty) view.markDirty(ALL_UNITS, eventTime, reasons);
    const failures = view.beginPlacement(placed, this.#snapshot, this.#encoders, eventTime, reasons);
    for (const { message, type } of failures) this.#options.observer.failed(message, type);
    this.#dispatch(view);
    // The next attempt may be minutes away: the proxy is told why, and asks again by itself.
    const blocked = placed.serves(session.types) ? undefined : this.#retries.blocked(view.key);
    if (blocked !== undefined) session.fail(blocked);
  }

  #dispatch(view: SessionView): void {
    if (view.inFlight || !view.isDirty) return;
    if (view.sessions.size === 0) {
      // Nobody has it: generated again, with all that came meanwhile, when somebody does.
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

  /** A view that could not be generated is tried again. */
  #retry(key: string): void {
    const view = this.#views.get(key);
    if (view !== undefined) this.#dispatch(view);
  }

  #commit(view: SessionView, job: GeneratedJob): void {
    const started = this.now();
    const { observer } = this.#options;
    observer.stage('generate', job.milliseconds);
    for (const type of GENERATED_TYPES) {
      const took = job.answer.milliseconds[type];
      if (took !== undefined) observer.generated(type, took);
    }
    if (job.answer.gone) {
      view.postpone();
      this.#views.reads.end(view);
      this.#dispatch(view);
      return;
    }
    const { changed, eventTime, reasons, failures } = view.commit(job, this.#snapshot, this.#encoders);
    for (const late of this.#views.reads.commit(view, job)) view.markDirty(late.units, late.eventTime, late.reasons);
    this.#views.reads.end(view);
    for (const { message, type } of failures) observer.failed(message, type);
    const failed = this.#retries.succeeded(view.key);
    if (failed > 0) observer.viewRecovered(view.key, failed);
    observer.stage('intern', this.now() - started);
    const nothing = { types: NO_TYPES, eventTime, reasons };
    const pushes = new Map([...changed].map(([placed, types]) => [placed, { ...nothing, types }] as const));
    for (const session of view.sessions) {
      const placed = session.partOf(view);
      const push = (placed && pushes.get(placed)) ?? nothing;
      if (!this.#pushes.move(session, push)) this.#pushes.commit(session, view, push);
      session.resolveNeeds();
    }
    this.#dispatch(view);
  }

  #abandon(view: SessionView, error: unknown): void {
    view.abandon();
    this.#views.reads.end(view);
    const cause = toCtlError(error);
    if (cause.code === 'unavailable') return;
    this.#options.observer.viewFailed(this.#retries.failed(view.key, cause), view.dirtyTypes());
    const push = { types: NO_TYPES, eventTime: this.now(), reasons: NO_REASONS };
    for (const session of view.sessions) {
      const waits = session.allViews.some((placed) => placed.view === view && !placed.serves(session.types));
      if (waits) session.fail(cause);
      if (view.built && !this.#pushes.move(session, push)) this.#pushes.commit(session, view, push);
      // When it moves is not known any more.
      if (session.isMoving) this.#pushes.pushPostponed(session);
    }
  }
}

/** True when some session is to have the view from here on. */
function isWanted(view: SessionView): boolean {
  for (const placed of view.placements()) for (const session of placed.sessions) if (session.wants(placed)) return true;
  return false;
}
