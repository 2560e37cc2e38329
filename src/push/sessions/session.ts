/**
 * One proxy's session: which views it has, which it is about to have, and how long its last change has been on the way.
 */
import { CtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { byXdsType } from '../../core/xds-types.ts';
import { GENERATED_FOR, type GeneratedType, XDS_TYPES, type XdsType } from '../../generate/types.ts';
import type { Bundle, Parts, PendingPush, ProxySession, PushOutcome, PushSink } from '../types.ts';
import type { Bundles, PlacedView, ViewState } from '../views/index.ts';

/** The engine's side, as far as a session needs it. */
export interface SessionHost {
  /** The version that views with nothing left to do stand at. */
  readonly version: number;
  request(session: Session, types: Iterable<XdsType>): void;
  /** Has generated what the session has come to ask for. */
  need(session: Session): void;
  converged(milliseconds: number): void;
  /** A change of the mesh is on its way to a proxy; called in pairs with {@link pushEnded}. */
  pushBegan(): void;
  /**
   * It was acknowledged after so many ms; undefined: it turned out that the proxy needs nothing of it, or it has gone.
   */
  pushEnded(session: Session, milliseconds: number | undefined): void;
  /** What a session had last looked up: those of the same views ask one after the other. */
  shared: SharedContent;
  /** The session is to have a view, or does not have it any more. */
  enter(view: PlacedSessionView, session: Session): void;
  leave(view: PlacedSessionView, session: Session): void;
  closed(session: Session): void;
  now(): number;
}

/** Parts, and what the views have that they are made of. */
interface SharedContent {
  readonly bundles: readonly Bundles[];
  readonly content: Parts;
}

/** A push that waits for another part of the same proxy; its version is the one it is sent at. */
export type PostponedPush = Omit<PendingPush, 'version'>;

/** A push and what was held back for it, as one. */
export function mergedPush(push: PostponedPush, held: PostponedPush | undefined): PostponedPush {
  if (held === undefined) return push;
  return {
    types: push.types.union(held.types),
    eventTime: Math.min(push.eventTime, held.eventTime),
    reasons: push.reasons.union(held.reasons),
  };
}

/** Types of which these parts differ in some resource. */
export function changedTypes(before: Parts, now: Parts): ReadonlySet<XdsType> {
  return new Set(XDS_TYPES.filter((type) => differs(before[type], now[type])));
}

function differs(before: readonly Bundle[], now: readonly Bundle[]): boolean {
  if (before.length !== now.length) return true;
  return now.some((bundle, index) => {
    const { changed, removed } = bundle.diffFrom(before[index]);
    return changed.length > 0 || removed.length > 0;
  });
}

export type SessionView = ViewState<Session>;

/** A view as those have it who are in one placement. */
export type PlacedSessionView = PlacedView<Session, SessionView>;

const NO_PARTS: Parts = byXdsType(() => []);

export const NOTHING_SHARED: SharedContent = { bundles: [], content: NO_PARTS };

/** Somebody waits until these types are generated. */
interface Need {
  readonly types: ReadonlySet<GeneratedType>;
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Changes on their way to the proxy, as one: the oldest event, the newest version. */
export interface Converging {
  readonly eventTime: number;
  readonly version: number;
  /** Something was sent since; what then turns out to need nothing more still has to be acknowledged. */
  sent: boolean;
  /** The host was told that a change is on its way. */
  readonly reported: boolean;
}

/** Whose session it is. */
export type SessionIdentity = Pick<Session, 'node' | 'caller' | 'connectionId' | 'sink'>;

export class Session implements ProxySession {
  readonly node: ProxyNode;
  readonly caller: string;
  readonly connectionId: string;
  readonly sink: PushSink;
  readonly ready: Promise<void>;
  readonly #host: SessionHost;
  /** What has to be generated for the types that the proxy asks for. */
  readonly #types: Set<GeneratedType>;
  /** Who waits for more of it. */
  #needs: readonly Need[] = [];
  #views: readonly PlacedSessionView[] = [];
  /** Views wanted instead of the current ones, once all of them are built. */
  #next: readonly PlacedSessionView[] | undefined;
  /** Snapshot version by which it came to want them. */
  #wantedVersion = 0;
  /**
   * Its secrets while it is to leave the views that it has. Others may keep those, and get new secrets by them; this
   * proxy may be leaving because it has lost the right to them.
   */
  #lastSecrets: readonly Bundle[] | undefined;
  /** What {@link content} said last. */
  #content: Parts = NO_PARTS;
  /** What its views had then; empty when it has to be looked at anew. */
  #contentOf: readonly Bundles[] = [];
  #converging: Converging | undefined;
  #postponed: PostponedPush | undefined;
  #resolveReady: () => void = () => {};
  #rejectReady: (error: unknown) => void = () => {};

  /** @param types that the proxy asks for to begin with */
  constructor({ node, caller, connectionId, sink }: SessionIdentity, types: readonly XdsType[], host: SessionHost) {
    this.node = node;
    this.caller = caller;
    this.connectionId = connectionId;
    this.sink = sink;
    this.#host = host;
    this.#types = new Set(types.flatMap((type) => GENERATED_FOR[type]));
    this.ready = new Promise((resolve, reject) => {
      this.#resolveReady = resolve;
      this.#rejectReady = reject;
    });
    // A stream may have closed before anyone waits.
    this.ready.catch(() => {});
  }

  /** True when the view is a part of what the proxy has now. */
  has(view: PlacedSessionView): boolean {
    return this.#views.includes(view);
  }

  /** What the proxy has now of a view; undefined when it has nothing of it. */
  partOf(view: SessionView): PlacedSessionView | undefined {
    return this.#views.find((each) => each.view === view);
  }

  /** True when the proxy is to have the view from here on; false for one that it is leaving. */
  wants(view: PlacedSessionView): boolean {
    return (this.#next ?? this.#views).includes(view);
  }

  /** True while it waits for the views that it is to have. */
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
    this.#contentOf = [];
    this.#leave(before.filter((view) => !views.includes(view) && !this.#views.includes(view)));
  }

  /** Moves to the wanted views when all are built. True when it moved now. */
  adopt(): boolean {
    const next = this.#next;
    if (next === undefined || !next.every((view) => view.serves(this.#types) && !this.#isEarlier(view))) return false;
    const left = this.#views.filter((view) => !next.includes(view));
    this.#views = next;
    this.#next = undefined;
    this.#lastSecrets = undefined;
    this.#contentOf = [];
    this.#leave(left);
    this.#resolveReady();
    return true;
  }

  /**
   * True for a view, or another placement of one that it has, that stands before the change by which the proxy moves
   * there: others there have that already, but to this proxy it would be neither what it had nor what it is to have.
   * One that cannot be generated at present is taken as it is, and so is any by a proxy that has nothing yet.
   */
  #isEarlier(placed: PlacedSessionView): boolean {
    if (this.#views.length === 0 || this.has(placed) || placed.view.lastJobFailed) return false;
    return (placed.isDirty || placed.inFlight) && placed.committedVersion < this.#wantedVersion;
  }

  /** What the proxy asks for and waits for cannot be had. */
  fail(error: unknown): void {
    this.#rejectReady(error);
    for (const { reject } of this.#needs) reject(error);
    this.#needs = [];
  }

  get types(): ReadonlySet<GeneratedType> {
    return this.#types;
  }

  /** The views that it has, and those that it is to have. */
  get allViews(): readonly PlacedSessionView[] {
    return [...this.#views, ...(this.#next ?? [])];
  }

  need(type: XdsType): Promise<void> | undefined {
    const generated = GENERATED_FOR[type];
    // Nearly all requests: of types that the proxy has asked for before.
    if (this.#needs.length === 0 && generated.every((one) => this.#types.has(one))) return undefined;
    const types = new Set(generated);
    const pending = this.#needs.find((need) => types.isSubsetOf(need.types));
    if (pending !== undefined) return pending.promise;
    if (types.isSubsetOf(this.#types)) return undefined;
    for (const one of types) this.#types.add(one);
    if (this.#serves(types)) return undefined;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // A stream may have closed before anyone waits.
    promise.catch(() => {});
    this.#needs = [...this.#needs, { types, promise, resolve, reject }];
    this.#host.need(this);
    this.resolveNeeds();
    return promise;
  }

  #serves(types: ReadonlySet<GeneratedType>): boolean {
    return this.#next === undefined && this.#views.every((view) => view.serves(types));
  }

  /** Something was generated for one of its views: lets go on who waited for it. */
  resolveNeeds(): void {
    if (this.#needs.length === 0) return;
    for (const need of this.#needs) if (this.#serves(need.types)) need.resolve();
    this.#needs = this.#needs.filter(({ types }) => !this.#serves(types));
  }

  parts(type: XdsType): readonly Bundle[] {
    return this.content()[type];
  }

  content(): Parts {
    if (!this.#areBundles(this.#contentOf)) this.#refresh();
    return this.#content;
  }

  /** True when these are what its views have. */
  #areBundles(seen: readonly Bundles[]): boolean {
    const views = this.#views;
    if (seen.length !== views.length) return false;
    for (let index = 0; index < seen.length; index++) if (seen[index] !== views[index]?.bundles) return false;
    return true;
  }

  #refresh(): void {
    const { shared } = this.#host;
    if (this.#lastSecrets === undefined && this.#areBundles(shared.bundles)) {
      this.#contentOf = shared.bundles;
      this.#content = shared.content;
      return;
    }
    const before = this.#content;
    const seen = this.#views.map((view) => view.bundles);
    const content = byXdsType((type) => partsOf(type, seen, before));
    if (this.#lastSecrets !== undefined) content.sds = this.#lastSecrets;
    this.#contentOf = seen;
    if (XDS_TYPES.some((type) => content[type] !== before[type])) this.#content = content;
    if (this.#lastSecrets === undefined) this.#host.shared = { bundles: seen, content: this.#content };
  }

  version(): number {
    let version = this.#host.version;
    for (const view of this.#views)
      if (view.isDirty || view.inFlight) version = Math.min(version, view.committedVersion);
    return version;
  }

  /** The same for parts of which nothing is left as it was because it could not be generated. */
  wholeVersion(): number {
    let version = this.version();
    for (const view of this.#views) if (!view.whole) version = Math.min(version, view.wholeVersion);
    return version;
  }

  request(types: Iterable<XdsType>): void {
    this.#host.request(this, types);
  }

  /** The changes that are on their way to the proxy; another object after each {@link changed}. */
  get converging(): Converging | undefined {
    return this.#converging;
  }

  /** A change is on its way to the proxy. */
  changed({ eventTime, version, reasons }: Pick<PendingPush, 'eventTime' | 'version' | 'reasons'>): void {
    const known = this.#converging;
    // That a proxy has come is no change of the mesh.
    const reported = known?.reported === true || [...reasons].some((reason) => reason !== 'proxy');
    if (reported && known?.reported !== true) this.#host.pushBegan();
    this.#converging =
      known === undefined
        ? { eventTime, version, sent: false, reported }
        : {
            eventTime: Math.min(eventTime, known.eventTime),
            version: Math.max(version, known.version),
            sent: known.sent,
            reported,
          };
  }

  /** The changes that were on their way are not any more; see {@link SessionHost.pushEnded}. */
  #endConverging(milliseconds: number | undefined): void {
    if (this.#converging?.reported === true) this.#host.pushEnded(this, milliseconds);
    this.#converging = undefined;
  }

  /** True when no change is on the way to the proxy. */
  get settled(): boolean {
    if (this.#converging !== undefined || this.#postponed !== undefined || this.#next !== undefined) return false;
    return this.#views.every((view) => !view.isDirty && !view.inFlight);
  }

  /** True when all that is on the way is in the parts, so that the stream may be through with it without knowing. */
  get mayBeSynced(): boolean {
    return this.#converging !== undefined && this.version() >= this.#converging.version;
  }

  /** What came of a push; `known`: what was on the way when it began. */
  pushed(outcome: PushOutcome, known: Converging | undefined): void {
    if (outcome === 'sent') {
      if (this.#converging !== undefined) this.#converging.sent = true;
    } else if (outcome === 'nothing') this.#endUnlessSent(known);
  }

  synced(version: number): void {
    const converging = this.#converging;
    if (converging === undefined || version < converging.version) return;
    const milliseconds = this.#host.now() - converging.eventTime;
    this.#endConverging(milliseconds);
    this.#host.converged(milliseconds);
  }

  /** A push found nothing to send: the changes known when it began concern nothing that the proxy asks for. */
  #endUnlessSent(known: Converging | undefined): void {
    if (known !== undefined && known === this.#converging && !known.sent) this.#endConverging(undefined);
  }

  /** True while a part other than `committed` is being generated, of those that it has and those that it is to have. */
  awaitsAnother(committed: SessionView): boolean {
    return this.allViews.some(({ view }) => view !== committed && view.inFlight);
  }

  postpone(push: PostponedPush): void {
    this.#postponed = push;
  }

  takePostponed(): PostponedPush | undefined {
    const held = this.#postponed;
    this.#postponed = undefined;
    return held;
  }

  close(): void {
    const views = this.allViews;
    this.#views = [];
    this.#next = undefined;
    this.#lastSecrets = undefined;
    this.#content = NO_PARTS;
    this.#contentOf = [];
    this.#postponed = undefined;
    this.#endConverging(undefined);
    this.#leave(views);
    // Whoever waits for the first configuration has to learn that it will not come.
    this.fail(new CtlError('unavailable', 'the session is closed'));
    this.#host.closed(this);
  }

  #leave(views: readonly PlacedSessionView[]): void {
    for (const view of views) this.#host.leave(view, this);
  }
}

/** Parts of a type: those of `before` where they are still the same. */
function partsOf(type: XdsType, seen: readonly Bundles[], before: Parts): readonly Bundle[] {
  const known = before[type];
  let same = known.length === seen.length;
  for (let index = 0; same && index < seen.length; index++) same = known[index] === seen[index]?.[type];
  return same ? known : seen.map((bundles) => bundles[type]);
}

function sameViews(a: readonly PlacedSessionView[], b: readonly PlacedSessionView[]): boolean {
  return a.length === b.length && a.every((view, index) => view === b[index]);
}
