/** One proxy's session: its current views, the views that it moves to, and the pending changes. */
import { CtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import type { XdsType } from '../../core/xds-types.ts';
import { GENERATED_FOR, type GeneratedType, type OnDemand } from '../../generate/index.ts';
import type { Push } from '../push.ts';
import type { Bundle, LaterClusters, LaterHosts, Names, Parts, ProxySession, PushOutcome, PushSink } from '../types.ts';
import type { PlacedView, ViewState } from '../views/index.ts';
import { Holding } from './holding.ts';
import { Needs } from './needs.ts';
import { Outbound } from './outbound.ts';
import { SessionContent, type SharedContent } from './parts.ts';
import { PendingChanges } from './pending-changes.ts';

/** The part of the engine that a session uses. */
export interface SessionHost {
  /** Version of the snapshot, which views without dirty units are at. */
  readonly version: number;
  request(session: Session, types: Iterable<XdsType>): void;
  /** Generates the types that the session now requests. */
  need(session: Session): void;
  converged(milliseconds: number): void;
  /** A change of the mesh is on its way to a proxy; each call is followed by one of {@link pushEnded}. */
  pushBegan(session: Session, push: Push): void;
  /** The change was acknowledged after this many ms; undefined if the proxy does not need it or has disconnected. */
  pushEnded(session: Session, milliseconds: number | undefined): void;
  /** The content that a session built last, for the next session with the same views. */
  shared: SharedContent;
  /** The proxy has answered a response, or needs none. */
  answered(session: Session): void;
  /** The session has a view, or moves to it. */
  enter(view: PlacedSessionView, session: Session): void;
  leave(view: PlacedSessionView, session: Session): void;
  closed(session: Session): void;
  now(): number;
}

export type SessionView = ViewState<Session>;

/** A view in one placement. */
export type PlacedSessionView = PlacedView<Session, SessionView>;

/**
 * After this many pushes, a new proxy has the first resources of all types. Later requests are not urgent, because a
 * proxy may repeatedly request other resources.
 */
const FIRST_PUSHES = 16;

const NO_HOSTS: readonly string[] = [];

/** The identity of a session. */
export type SessionIdentity = Pick<Session, 'node' | 'caller' | 'connectionId' | 'sink'>;

export class Session implements ProxySession {
  /** Replaced when its labels change: see `Roster.relabel`. */
  node: ProxyNode;
  readonly caller: string;
  readonly connectionId: string;
  readonly sink: PushSink;
  readonly ready: Promise<void>;
  readonly #host: SessionHost;
  /** The types that have to be generated for the requests of the proxy. */
  readonly #types: Set<GeneratedType>;
  /** Streams that wait for more types. */
  readonly #needs = new Needs();
  #views: readonly PlacedSessionView[] = [];
  /** Views that replace the current ones once all of them are built. */
  #next: readonly PlacedSessionView[] | undefined;
  /** Snapshot version that the move began with. */
  #wantedVersion = 0;
  /**
   * The secrets that it had when its move began. The views that it leaves may get new secrets, to which it may have
   * lost access.
   */
  #lastSecrets: readonly Bundle[] | undefined;
  readonly #content: SessionContent<Session>;
  readonly #pending = new PendingChanges();
  /** Number of pushes that sent something. */
  #sent = 0;
  /** A push that waits for another part of the proxy. */
  #postponed: Push | undefined;
  readonly #holding = new Holding<Session>(this);
  readonly #outbound = new Outbound();
  #resolveReady: () => void = () => {};
  #rejectReady: (error: unknown) => void = () => {};

  /**
   * @param types the types that the proxy requests first
   */
  constructor({ node, caller, connectionId, sink }: SessionIdentity, types: readonly XdsType[], host: SessionHost) {
    this.node = node;
    this.caller = caller;
    this.connectionId = connectionId;
    this.sink = sink;
    this.#host = host;
    this.#content = new SessionContent<Session>(this, host);
    this.#types = new Set(types.flatMap((type) => GENERATED_FOR[type]));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    [this.ready, this.#resolveReady, this.#rejectReady] = [promise, resolve, reject];
    // Without a listener, a rejection would end the process.
    this.ready.catch(() => {});
  }

  get onDemand(): OnDemand | undefined {
    return this.#outbound.capabilities(this.#views, this.#next)?.onDemand;
  }

  get namedHosts(): readonly string[] {
    return this.#outbound.capabilities(this.#views, this.#next)?.namedHosts ?? NO_HOSTS;
  }

  get laterClusters(): LaterClusters | undefined {
    return this.#views.find(({ view }) => view.later !== undefined)?.view.later;
  }

  get laterHosts(): LaterHosts | undefined {
    return this.#views.find(({ view }) => view.laterHosts !== undefined)?.view.laterHosts;
  }

  /** True when the proxy has the view now. */
  has(view: PlacedSessionView): boolean {
    return this.#views.includes(view);
  }

  /** The placement in which the proxy has a view now; undefined when it does not have the view. */
  partOf(view: SessionView): PlacedSessionView | undefined {
    return this.#views.find((each) => each.view === view);
  }

  /** Whether the proxy keeps the view or moves to it; false for a view that it is leaving. */
  wants(view: PlacedSessionView): boolean {
    return (this.#next ?? this.#views).includes(view);
  }

  /** True while it waits for the views that it moves to. */
  get isMoving(): boolean {
    return this.#next !== undefined;
  }

  /** Sets the views that the proxy should have; {@link adopt} moves it there. */
  want(views: readonly PlacedSessionView[]): void {
    const before = this.#next ?? [];
    if (!sameViews(views, before)) this.#wantedVersion = this.#host.version;
    for (const view of views) this.#host.enter(view, this);
    this.#next = sameViews(views, this.#views) ? undefined : views;
    this.#lastSecrets = this.#next && (this.#lastSecrets ?? this.#views.map((view) => view.bundles.sds));
    this.#content.outdate();
    this.#updateWaiting();
    this.#holding.enter(views);
    this.#leave(before.filter((view) => !views.includes(view) && !this.#views.includes(view)));
    // The views that it keeps may have been generated while it was moving.
    this.resolveNeeds();
  }

  /** Moves to the wanted views when all are built. True when it moved now. */
  adopt(): boolean {
    const next = this.#next;
    if (next === undefined || !next.every((view) => view.serves(this.#types) && !this.#isEarlier(view))) return false;
    const left = this.#views.filter((view) => !next.includes(view));
    this.#views = next;
    this.#next = undefined;
    this.#lastSecrets = undefined;
    this.#content.outdate();
    this.#updateWaiting();
    this.#leave(left);
    this.#resolveReady();
    // These views may not be generated again, so no commit would resolve the needs.
    this.resolveNeeds();
    return true;
  }

  /**
   * True for a view, or a new placement of a current view, that does not include the change that makes the proxy move
   * there: moving now would show it a state that it should never have. A view that currently cannot be generated is
   * accepted in its current state, and a proxy without configuration accepts any view.
   */
  #isEarlier(placed: PlacedSessionView): boolean {
    if (this.#views.length === 0 || this.has(placed)) return false;
    // It may have some of what the view lacks, which is generated now.
    const { later, laterHosts } = placed.view;
    if ([later?.need(undefined), laterHosts?.need(undefined, this)].some((waits) => waits !== undefined)) return true;
    if (placed.isTriedBefore(this, this.#wantedVersion)) return true;
    if (placed.view.lastJobFailed) return false;
    return (placed.isDirty || placed.inFlight) && placed.committedVersion < this.#wantedVersion;
  }

  /** Called if the types that the proxy waits for cannot be generated. */
  fail(error: unknown): void {
    this.#rejectReady(error);
    this.#needs.reject(error);
    this.#updateWaiting();
  }

  get types(): ReadonlySet<GeneratedType> {
    return this.#types;
  }

  /** The views that it has. */
  get views(): readonly PlacedSessionView[] {
    return this.#views;
  }

  /** Those, and the views that it moves to. */
  get allViews(): readonly PlacedSessionView[] {
    return [...this.#views, ...(this.#next ?? [])];
  }

  need(type: XdsType): Promise<void> | undefined {
    const generated = GENERATED_FOR[type];
    // The common case: the proxy has requested the type before.
    if (this.#needs.isEmpty && generated.every((one) => this.#types.has(one))) return undefined;
    const types = new Set(generated);
    const pending = this.#needs.find(types);
    if (pending !== undefined) return pending;
    if (types.isSubsetOf(this.#types)) return undefined;
    for (const one of types) this.#types.add(one);
    if (this.#serves(types)) return undefined;
    const promise = this.#needs.add(types);
    this.#updateWaiting();
    this.#host.need(this);
    this.resolveNeeds();
    return promise;
  }

  #serves(types: ReadonlySet<GeneratedType>): boolean {
    return this.#next === undefined && this.#views.every((view) => view.serves(types));
  }

  /** Called when a view was generated or its views changed: resolves the needs that are now met. */
  resolveNeeds(): void {
    if (this.#needs.isEmpty) return;
    this.#needs.resolve((types) => this.#serves(types));
    this.#updateWaiting();
  }

  hold(names: readonly Names[] | undefined): void {
    if (this.#holding.set(names)) this.#updateWaiting();
  }

  #updateWaiting(): void {
    this.#holding.wait(this.#waits);
    if (this.#isIdle) this.#content.holdWeakly();
  }

  get #waits(): boolean {
    const isSettled = this.#next === undefined && this.#pending.push === undefined && this.#postponed === undefined;
    return !isSettled || !this.#needs.isEmpty;
  }

  /** Its views may change many times before it looks at them: it is not found for changes of what it does not hold. */
  get #isIdle(): boolean {
    return this.#holding.isOfSome && !this.#waits;
  }

  parts(type: XdsType): readonly Bundle[] {
    return this.content()[type];
  }

  content(): Parts {
    return this.#content.of(this.#views, this.#lastSecrets, this.#isIdle);
  }

  version(): number {
    let version = this.#host.version;
    for (const view of this.#views) {
      if (view.isDirty || view.inFlight) version = Math.min(version, view.committedVersion);
      version = Math.min(version, view.heldVersion(this) ?? version);
    }
    return version;
  }

  completeVersion(): number {
    // The parts of a proxy that moves lack the change that moves it.
    let version = this.isMoving ? Math.min(this.version(), this.#wantedVersion - 1) : this.version();
    for (const view of this.#views) if (!view.isComplete) version = Math.min(version, view.completeVersion);
    return version;
  }

  request(types: Iterable<XdsType>): void {
    this.#host.request(this, types);
  }

  /** The pending changes; a new object after each {@link changed}. */
  get converging(): Push | undefined {
    return this.#pending.push;
  }

  /** Adds a pending change. */
  changed(push: Push): void {
    if (this.#pending.add(push)) this.#host.pushBegan(this, push);
    this.#updateWaiting();
  }

  /** Ends the pending changes; see {@link SessionHost.pushEnded}. */
  #endConverging(milliseconds: number | undefined): void {
    const wasReported = this.#pending.end();
    this.#updateWaiting();
    if (wasReported) this.#host.pushEnded(this, milliseconds);
  }

  /** Whether a part of the pending changes, or of the configuration that a new proxy requests, was sent. */
  get begun(): boolean {
    return this.#pending.push === undefined ? this.#sent > 0 && this.#sent < FIRST_PUSHES : this.#pending.isSent;
  }

  /** Whether there are no pending changes. */
  get settled(): boolean {
    if (this.#pending.push !== undefined || this.#postponed !== undefined || this.#next !== undefined) return false;
    return this.#views.every((view) => !view.isDirty && !view.inFlight && !view.isAwaitedBy(this));
  }

  /** Whether the parts include all pending changes, so that the stream may already have sent all of them. */
  get mayBeSynced(): boolean {
    const { push } = this.#pending;
    return push !== undefined && this.version() >= push.version;
  }

  /** Called when a push has ended; `known`: the pending changes when it began. */
  pushed(outcome: PushOutcome, known: Push | undefined): void {
    if (outcome === 'sent') {
      this.#sent++;
      this.#pending.sent();
    } else if (outcome === 'nothing') {
      this.#endUnlessSent(known);
      this.answered();
    }
  }

  answered(): void {
    this.#host.answered(this);
  }

  synced(version: number): void {
    const { push } = this.#pending;
    if (push === undefined || version < push.version) return;
    const milliseconds = this.#host.now() - push.eventTime;
    this.#endConverging(milliseconds);
    this.#host.converged(milliseconds);
  }

  /** A push had nothing to send: the proxy does not need the changes that were known when it began. */
  #endUnlessSent(known: Push | undefined): void {
    if (known !== undefined && known === this.#pending.push && !this.#pending.isSent) this.#endConverging(undefined);
  }

  /** Whether one of its current or next views other than `committed` is being generated. */
  awaitsAnother(committed: SessionView): boolean {
    return this.allViews.some(({ view }) => view !== committed && view.inFlight);
  }

  postpone(push: Push): void {
    this.#postponed = push;
    this.#updateWaiting();
  }

  takePostponed(): Push | undefined {
    const postponed = this.#postponed;
    this.#postponed = undefined;
    this.#updateWaiting();
    return postponed;
  }

  close(): void {
    const views = this.allViews;
    this.#views = [];
    this.#next = undefined;
    this.#lastSecrets = undefined;
    this.#content.drop();
    this.#postponed = undefined;
    this.#endConverging(undefined);
    this.#leave(views);
    // Streams that wait for the first configuration have to end.
    this.fail(new CtlError('unavailable', 'the session is closed'));
    this.#host.closed(this);
  }

  #leave(views: readonly PlacedSessionView[]): void {
    for (const view of views) this.#host.leave(view, this);
  }
}

function sameViews(a: readonly PlacedSessionView[], b: readonly PlacedSessionView[]): boolean {
  return a.length === b.length && a.every((view, index) => view === b[index]);
}
