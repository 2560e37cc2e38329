/**
 * A view as proxies of one placement have it: with clusters and endpoints of their own where these depend on it, and
 * with the view's own bundles otherwise. Nothing here decides when something is generated: that is the view's business.
 */
import type { GeneratedType, Placement, Unit, XdsType } from '../../generate/types.ts';
import type { Bundle, EncodedResource } from '../types.ts';

/** What a view knows of those who have it. */
export interface Member {
  /** Whose proxy it is. */
  readonly caller: string;
}

export type Bundles = Readonly<Record<XdsType, Bundle>>;

/** What placements answer of the view that they are of. */
interface OwnerView {
  readonly isDirty: boolean;
  readonly inFlight: boolean;
  readonly committedVersion: number;
  readonly whole: boolean;
  readonly wholeVersion: number;
  serves(types: ReadonlySet<GeneratedType>): boolean;
}

export class PlacedView<S extends Member, V extends OwnerView> {
  readonly view: V;
  readonly placement: Placement;
  /** Names the placement. */
  readonly key: string;
  readonly sessions = new Set<S>();
  /** Whose they are, and how many of each. */
  readonly #callers = new Map<string, number>();
  /** Units of clusters that depend on the placement. */
  readonly clusters = new Map<Unit, readonly EncodedResource[]>();
  /** Whether its clusters and endpoints are there; from then on they follow the view's. */
  initialized = false;
  /**
   * What there is now; another object whenever a bundle is another. The view's own where nothing of it depends on the
   * placement.
   */
  bundles: Bundles;

  constructor(view: V, key: string, placement: Placement, bundles: Bundles) {
    this.view = view;
    this.key = key;
    this.placement = placement;
    this.bundles = bundles;
  }

  /** Whose the sessions are. */
  callers(): Iterable<string> {
    return this.#callers.keys();
  }

  /** True when some session of this caller is here. */
  hasCaller(caller: string): boolean {
    return this.#callers.has(caller);
  }

  /** False when the session was in already. */
  enter(session: S): boolean {
    if (this.sessions.has(session)) return false;
    this.sessions.add(session);
    this.#callers.set(session.caller, (this.#callers.get(session.caller) ?? 0) + 1);
    return true;
  }

  /** False when the session was not in. */
  leave(session: S): boolean {
    if (!this.sessions.delete(session)) return false;
    const left = (this.#callers.get(session.caller) ?? 0) - 1;
    if (left > 0) this.#callers.set(session.caller, left);
    else this.#callers.delete(session.caller);
    return true;
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

  get whole(): boolean {
    return this.view.whole;
  }

  get wholeVersion(): number {
    return this.view.wholeVersion;
  }

  /** Whether what there is of these types may be served to new sessions. */
  serves(types: ReadonlySet<GeneratedType>): boolean {
    return this.view.serves(types) && (this.initialized || !types.has('cds'));
  }
}
