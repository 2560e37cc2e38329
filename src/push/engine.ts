/**
 * The push engine: takes published snapshots, has the units that changed generated once per view, and tells the proxies that
 * have those views. It runs on the main thread and does nothing whose cost grows with (proxies x resources).
 *
 *   publish ──▶ concerned views ──▶ affected units ──jobs──▶ generator ──▶ commit (bundles) ──▶ queue ──▶ sinks
 *          └──▶ endpoints: encoded here, at once ────────────────────────────────────────────▶
 */
import { CtlError } from '../core/errors.ts';
import type { ProxyNode } from '../core/proxy.ts';
import { affectedUnits } from '../generate/index.ts';
import { XDS_TYPES, type XdsType } from '../generate/types.ts';
import type { ChangeSet, Snapshot } from '../model/types.ts';
import type { ResourceChange } from '../resources/types.ts';
import type { GeneratedJob, Generator } from './generator.ts';
import { Interner } from './interner.ts';
import { PushQueue } from './queue.ts';
import { type HeldPush, Session, type SessionHost, type SessionView } from './session.ts';
import type { PendingPush, ProxySession, PushEngine, PushReason, PushSink } from './types.ts';
import { ViewTable } from './view-table.ts';
import { viewsOf } from './views.ts';

/** What the engine tells the world of itself; times in milliseconds. */
export interface EngineObserver {
  triggered(reason: PushReason): void;
  converged(milliseconds: number): void;
  queueWaited(milliseconds: number): void;
  stage(stage: 'views' | 'generate' | 'intern', milliseconds: number): void;
  /** A job or unit that could not be generated; the last good version stays. */
  failed(message: string): void;
}

export interface EngineOptions {
  readonly snapshot: Snapshot;
  readonly generator: Generator;
  /** CTL_PUSH_THROTTLE */
  readonly throttle: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  readonly observer: EngineObserver;
}

/** A snapshot and how it came to be. */
export interface Publication {
  readonly snapshot: Snapshot;
  readonly changes: ChangeSet;
  /** The resource changes behind it, for the replicas. */
  readonly resources: readonly ResourceChange[];
  /** Monotonic ms of the first event in it. */
  readonly since: number;
  readonly reasons: ReadonlySet<PushReason>;
}

const ALL_UNITS = { cds: 'all', lds: 'all', rds: 'all' } as const;
const ALL_TYPES: ReadonlySet<XdsType> = new Set(XDS_TYPES);
const NO_TYPES: ReadonlySet<XdsType> = new Set();
const NO_REASONS: ReadonlySet<PushReason> = new Set();
const EDS_ONLY: ReadonlySet<XdsType> = new Set(['eds']);

export class Engine implements PushEngine, SessionHost {
  readonly #options: EngineOptions;
  readonly #queue: PushQueue<Session>;
  readonly #interner = new Interner();
  readonly #views = new ViewTable();
  readonly #sessions = new Set<Session>();
  readonly #byAddress = new Map<string, Set<Session>>();
  #snapshot: Snapshot;
  #connections = 0;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#snapshot = options.snapshot;
    this.#queue = new PushQueue({
      throttle: options.throttle,
      now: options.now,
      push: (session, pending) => this.#push(session, pending),
      observer: { waited: (milliseconds) => options.observer.queueWaited(milliseconds) },
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
    return this.#sessions;
  }

  stats(): { readonly queued: number; readonly underWay: number; readonly views: number; readonly interned: number } {
    const { waiting, underWay } = this.#queue;
    return { queued: waiting, underWay, views: this.#views.size, interned: this.#interner.size };
  }

  now(): number {
    return this.#options.now();
  }

  converged(milliseconds: number): void {
    this.#options.observer.converged(milliseconds);
  }

  connect(node: ProxyNode, sink: PushSink): ProxySession {
    const session = new Session(node, `${node.id}-${++this.#connections}`, sink, this);
    this.#sessions.add(session);
    for (const address of node.addresses) this.#sessionsAt(address).add(session);
    this.#place(session, this.now(), ['proxy']);
    return session;
  }

  request(session: Session, types: Iterable<XdsType>): void {
    if (!this.#sessions.has(session)) return;
    const reasons: ReadonlySet<PushReason> = new Set(['proxy']);
    this.#queue.enqueue(session, { types: new Set(types), version: this.version, since: this.now(), reasons });
  }

  closed(session: Session): void {
    this.#sessions.delete(session);
    this.#queue.remove(session);
    for (const address of session.node.addresses) {
      const sessions = this.#byAddress.get(address);
      sessions?.delete(session);
      if (sessions?.size === 0) this.#byAddress.delete(address);
    }
    this.#views.sweep(this.now());
  }

  /** Takes the next snapshot over. Endpoint changes are on their way when this returns, the rest when it is generated. */
  publish(publication: Publication): void {
    const { snapshot, changes, since, reasons } = publication;
    const started = this.now();
    const previous = this.#snapshot;
    this.#snapshot = snapshot;
    this.#options.generator.advance(snapshot, publication.resources);
    for (const reason of reasons) this.#options.observer.triggered(reason);
    this.#publishEndpoints(changes, since, reasons);
    for (const view of this.#views.concerned(changes, snapshot)) {
      const units = view.built || view.inFlight ? affectedUnits(previous, snapshot, changes, view.view) : ALL_UNITS;
      if (units === undefined) continue;
      view.markDirty(units, since, reasons);
      this.#dispatch(view);
    }
    for (const session of this.#displaced(previous, changes)) this.#place(session, since, reasons);
    this.#views.sweep(this.now());
    this.#options.observer.stage('views', this.now() - started);
  }

  #publishEndpoints(changes: ChangeSet, since: number, reasons: ReadonlySet<PushReason>): void {
    for (const [view, hostnames] of this.#views.withEndpointsOf(changes, this.#snapshot)) {
      if (!view.updateEndpoints(hostnames, this.#snapshot, this.#interner)) continue;
      for (const session of view.sessions) this.#enqueue(session, { types: EDS_ONLY, since, reasons });
    }
  }

  /** Sessions whose views may be others than before. */
  #displaced(previous: Snapshot, changes: ChangeSet): Iterable<Session> {
    if (changes.everything) return this.#sessions;
    const displaced = new Set<Session>();
    for (const address of changes.addresses) {
      for (const session of this.#byAddress.get(address) ?? []) displaced.add(session);
    }
    for (const scope of changes.scopes.keys()) {
      const keys = previous.sourceLabelKeys(scope).join();
      if (keys === this.#snapshot.sourceLabelKeys(scope).join()) continue;
      for (const view of this.#views.ofScope(scope)) for (const session of view.sessions) displaced.add(session);
    }
    for (const session of this.#selectedAnew(changes)) displaced.add(session);
    return displaced;
  }

  /** Sessions that a changed Sidecar or Gateway may select, or have selected. */
  *#selectedAnew(changes: ChangeSet): Iterable<Session> {
    const sidecars = new Set<string>();
    let gateways = false;
    for (const key of changes.configs.keys()) {
      const [kind, namespace = ''] = key.split('/');
      if (kind === 'Sidecar') sidecars.add(namespace);
      gateways ||= kind === 'Gateway';
    }
    if (sidecars.size === 0 && !gateways) return;
    const everywhere = sidecars.has(this.#snapshot.settings.rootNamespace);
    for (const session of this.#sessions) {
      const { type, namespace } = session.node;
      if (type === 'router' ? gateways : everywhere || sidecars.has(namespace)) yield session;
    }
  }

  /** Finds a session's views in the current snapshot, and moves it to them at once or when they are built. */
  #place(session: Session, since: number, reasons: Iterable<PushReason>): void {
    const wanted = viewsOf(this.#snapshot, session.node).map((view) => this.#views.take(view));
    session.want(wanted);
    for (const view of wanted) {
      if (!view.built && !view.inFlight && !view.isDirty) view.markDirty(ALL_UNITS, since, reasons);
      this.#dispatch(view);
    }
    if (session.adopt()) this.#enqueue(session, { types: ALL_TYPES, since, reasons: new Set(reasons) });
  }

  #enqueue(session: Session, push: HeldPush): void {
    session.changed(push.since, this.version);
    this.#queue.enqueue(session, { ...push, version: this.version });
  }

  #dispatch(view: SessionView): void {
    if (view.inFlight || !view.isDirty) return;
    if (view.sessions.size === 0) {
      // Nobody has it: generated again, with all that came meanwhile, when somebody does.
      view.built = false;
      return;
    }
    const job = view.takeJob();
    if (job === undefined) return;
    this.#options.generator.submit(job).then(
      (result) => this.#commit(view, result),
      (error: unknown) => this.#abandon(view, error),
    );
  }

  #commit(view: SessionView, job: GeneratedJob): void {
    const started = this.now();
    const { observer } = this.#options;
    observer.stage('generate', job.milliseconds);
    const first = !view.built;
    const { changed, since, reasons } = view.commit(job, this.#snapshot, this.#interner);
    for (const { type, unit, message } of job.answer.failures) {
      observer.failed(`${type} ${unit} of ${view.key}: ${message}`);
    }
    observer.stage('intern', this.now() - started);
    for (const session of view.sessions) {
      if (session.adopt()) this.#enqueue(session, { types: ALL_TYPES, since, reasons });
      else this.#announce(session, view, first ? NO_TYPES : changed, since, reasons);
    }
    this.#dispatch(view);
  }

  /**
   * Queues a push of what a view's commit changed. While another part of the same proxy is being generated the push is held
   * back for that part's commit, once: a change that concerns two parts is one push.
   */
  #announce(
    session: Session,
    committed: SessionView,
    types: ReadonlySet<XdsType>,
    since: number,
    reasons: ReadonlySet<PushReason>,
  ): void {
    const held = session.takeHeld();
    if (types.size === 0 && held === undefined) return;
    const push = {
      types: types.union(held?.types ?? NO_TYPES),
      since: Math.min(since, held?.since ?? since),
      reasons: reasons.union(held?.reasons ?? NO_REASONS),
    };
    if (held === undefined && session.awaitsAnother(committed)) session.hold(push);
    else this.#enqueue(session, push);
  }

  #abandon(view: SessionView, error: unknown): void {
    view.abandon();
    const cause = error instanceof CtlError ? error : new CtlError('internal', String(error), {}, error);
    if (cause.code === 'unavailable') return;
    this.#options.observer.failed(cause.oneLine());
    for (const session of view.sessions) {
      if (!view.built) session.fail(cause);
      this.#announce(session, view, NO_TYPES, this.now(), NO_REASONS);
    }
  }

  async #push(session: Session, pending: PendingPush): Promise<'sent' | 'nothing' | 'deferred' | 'closed'> {
    const outcome = await session.sink.push(pending);
    if (outcome === 'nothing') session.unconcerned();
    return outcome;
  }

  #sessionsAt(address: string): Set<Session> {
    let sessions = this.#byAddress.get(address);
    if (sessions === undefined) {
      sessions = new Set();
      this.#byAddress.set(address, sessions);
    }
    return sessions;
  }
}
