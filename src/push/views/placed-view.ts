/**
 * A view in one placement, with its own clusters and endpoints if these depend on the placement, and the view's common
 * bundles otherwise. The view decides when to generate.
 */
import type { XdsType } from '../../core/xds-types.ts';
import type { GeneratedType, Placement, Unit } from '../../generate/index.ts';
import type { Bundle, EncodedResource, Names } from '../types.ts';
import { Holders } from './holders.ts';

/** The part of its sessions that a view uses. */
export interface Member {
  /** The caller that the proxy belongs to. */
  readonly caller: string;
  /** What it has now. */
  readonly views?: readonly unknown[];
}

export type Bundles = Readonly<Record<XdsType, Bundle>>;

/** What is shown of a placement while not all that was generated is shown to everyone: see `push/canary`. */
export interface HeldBundles<S> {
  /** What sessions are shown. */
  readonly shown: Bundles;
  /** Snapshot version of `shown`. */
  readonly version: number;
  /** Snapshot version up to which nothing was withheld. */
  readonly completeVersion: number;
  /** While new resources are tried: what the canaries are shown. The other sessions wait. */
  readonly trial: HeldTrial<S> | undefined;
}

interface HeldTrial<S> {
  readonly bundles: Bundles;
  readonly version: number;
  /** All of the view is tried, so that `shown` is too. */
  readonly isNew: boolean;
  has(session: S): boolean;
}

/** The part of a view that its placements use. */
export interface OwnerView {
  readonly isDirty: boolean;
  readonly inFlight: boolean;
  readonly committedVersion: number;
  readonly isComplete: boolean;
  readonly completeVersion: number;
  serves(types: ReadonlySet<GeneratedType>): boolean;
  held(session: object, names: readonly Names[] | undefined): void;
}

export class PlacedView<S extends Member, V extends OwnerView> {
  readonly view: V;
  readonly placement: Placement;
  /** Key of the placement. */
  readonly key: string;
  readonly sessions = new Set<S>();
  /** Undefined: all sessions have all resources. */
  #holders: Holders<S> | undefined;
  /** Number of sessions by caller. */
  readonly #callers = new Map<string, number>();
  /** Clusters that depend on the placement. */
  readonly clusters = new Map<Unit, readonly EncodedResource[]>();
  /** True once it has its clusters and endpoints; from then on every commit of the view updates them. */
  initialized = false;
  /**
   * The current bundles; a new object whenever one of them is replaced. They are the view's common bundles if nothing
   * depends on the placement.
   */
  bundles: Bundles;
  /** Undefined: all sessions are shown `bundles`. */
  held: HeldBundles<S> | undefined;

  constructor(view: V, key: string, placement: Placement, bundles: Bundles) {
    this.view = view;
    this.key = key;
    this.placement = placement;
    this.bundles = bundles;
  }

  /** The callers of the sessions. */
  callers(): Iterable<string> {
    return this.#callers.keys();
  }

  /** True when some session is of this caller. */
  hasCaller(caller: string): boolean {
    return this.#callers.has(caller);
  }

  /** False when the session was here already. */
  enter(session: S): boolean {
    if (this.sessions.has(session)) return false;
    this.sessions.add(session);
    this.#holders?.enter(session);
    this.#callers.set(session.caller, (this.#callers.get(session.caller) ?? 0) + 1);
    return true;
  }

  /** False when the session was not here. */
  leave(session: S): boolean {
    if (!this.sessions.delete(session)) return false;
    this.#holders?.leave(session);
    const left = (this.#callers.get(session.caller) ?? 0) - 1;
    if (left > 0) this.#callers.set(session.caller, left);
    else this.#callers.delete(session.caller);
    return true;
  }

  /** A session has only what these names lead to; undefined: everything. */
  hold(session: S, names: readonly Names[] | undefined): void {
    if (!this.sessions.has(session)) return;
    if (names !== undefined) this.#holders ??= new Holders(this.sessions);
    this.#holders?.set(session, names);
    this.view.held(session, names);
  }

  /** Whether some session has only a part of the view, and holds this name. */
  isHeld(name: string): boolean {
    return this.#holders?.isHeld(name) === true;
  }

  /** A session that has a part of the view waits for what each commit may complete, or does not any more. */
  wait(session: S, waits: boolean): void {
    if (this.sessions.has(session)) this.#holders?.wait(session, waits);
  }

  /** The sessions that hold endpoints of these names. */
  holdersOf(endpoints: Iterable<string>): ReadonlySet<S> {
    return this.#holders?.of(endpoints, false) ?? this.sessions;
  }

  /** The sessions that have a part of the view, and wait for these names. */
  awaiting(names: ReadonlySet<string>): Iterable<S> {
    return names.size === 0 ? [] : (this.#holders?.of(names, false) ?? []);
  }

  /**
   * The sessions that a commit concerns.
   * @param names what it changed; undefined: it concerns all
   */
  concernedBy(names: () => readonly string[] | undefined): ReadonlySet<S> {
    const changed = this.#holders && names();
    return changed === undefined ? this.sessions : (this.#holders?.of(changed, true) ?? this.sessions);
  }

  get isDirty(): boolean {
    return this.view.isDirty;
  }

  get inFlight(): boolean {
    return this.view.inFlight;
  }

  get committedVersion(): number {
    return this.view.committedVersion;
  }

  get isComplete(): boolean {
    return this.view.isComplete && this.held === undefined;
  }

  get completeVersion(): number {
    const { completeVersion } = this.view;
    return this.held === undefined ? completeVersion : Math.min(completeVersion, this.held.completeVersion);
  }

  /** The bundles that sessions should have, except canaries. */
  get shown(): Bundles {
    return this.held?.shown ?? this.bundles;
  }

  /** The bundles that a session should have. */
  shownTo(session: S): Bundles {
    const { held } = this;
    if (held === undefined) return this.bundles;
    return held.trial?.has(session) === true ? held.trial.bundles : held.shown;
  }

  /** Whether a session waits for what is tried by others. */
  isAwaitedBy(session: S): boolean {
    const trial = this.held?.trial;
    return trial !== undefined && !trial.has(session);
  }

  /**
   * Whether a session that moves here waits for what is tried by others. It does not wait for changes that follow the
   * one that it moves with: more of them may always follow.
   * @param wantedVersion snapshot version that the move began with
   */
  isTriedBefore(session: S, wantedVersion: number): boolean {
    const { held } = this;
    if (held?.trial === undefined || held.trial.has(session)) return false;
    return held.trial.isNew || held.version < wantedVersion;
  }

  /** Snapshot version of what a session is shown, if that is not the last commit's. */
  heldVersion(session: S): number | undefined {
    const { held } = this;
    if (held?.trial === undefined) return undefined;
    return held.trial.has(session) ? held.trial.version : held.version;
  }

  /** Whether the bundles of these types may be served to new sessions. */
  serves(types: ReadonlySet<GeneratedType>): boolean {
    return this.view.serves(types) && (this.initialized || !types.has('cds'));
  }
}
