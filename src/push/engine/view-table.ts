/**
 * All live views, and what was read for them. Views that no proxy has any more are kept for a while, so that a
 * reconnect finds its configuration ready.
 */
import { CtlError } from '../../core/errors.ts';
import { scopeIdOfView } from '../../generate/index.ts';
import { NOWHERE, type Placement, type View } from '../../generate/types.ts';
import { viewKey } from '../proxies/index.ts';
import { ViewReads } from '../reads/index.ts';
import type { PlacedSessionView, Session, SessionView } from '../sessions/index.ts';
import { ViewState } from '../views/index.ts';

/** Longer than a restart of a proxy or a roll-out of a workload takes. */
export const IDLE_VIEW_MS = 120_000;
/**
 * Views that the proxies of one caller may have: workloads of one service account in all their forms, or all that
 * connect from one address. A view counts once for each placement in which they have it. What a proxy says of itself
 * decides which it has, so that a caller could otherwise have any number generated and kept.
 */
export const MAX_VIEWS_OF_CALLER = 1024;
/** Upper bound of views kept for nobody. */
export const MAX_IDLE_VIEWS = 256;

/** Who keeps the scopes up to date that views are of. */
export interface ScopeHolder {
  acquire(id: string): void;
  /** True when nobody holds the scope any more. */
  release(id: string): boolean;
}

export interface ViewTableOptions {
  readonly scopes: ScopeHolder;
  /** Told of a scope that no view is of any more. */
  readonly onReleased: (id: string) => void;
}

export class ViewTable {
  readonly #options: ViewTableOptions;
  readonly #views = new Map<string, SessionView>();
  readonly reads = new ViewReads<SessionView>();
  /** Number of views that the sessions of each caller have. */
  readonly #viewsOfCaller = new Map<string, number>();
  /** Views in placements in which nobody has them → monotonic ms since when, oldest first. */
  readonly #idle = new Map<PlacedSessionView, number>();

  constructor(options: ViewTableOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#views.size;
  }

  get(key: string): SessionView | undefined {
    return this.#views.get(key);
  }

  all(): Iterable<SessionView> {
    return this.#views.values();
  }

  /** The view's state as proxies of a placement have it, made when it is new. */
  take(view: View, placement: Placement): PlacedSessionView {
    const key = viewKey(view);
    let state = this.#views.get(key);
    if (state === undefined) {
      this.#options.scopes.acquire(scopeIdOfView(view));
      state = new ViewState(key, view);
      this.#views.set(key, state);
    }
    return state.ensurePlacement(placementFor(view, placement));
  }

  /** Throws CtlError `resource_exhausted` when these would be more views than one caller may have. */
  admit(caller: string, views: readonly View[], placement: Placement): void {
    const had = this.#viewsOfCaller.get(caller) ?? 0;
    if (had + views.length <= MAX_VIEWS_OF_CALLER) return;
    const fresh = views.filter((view) => {
      const state = this.#views.get(viewKey(view));
      return state?.findPlacement(placementFor(view, placement))?.hasCaller(caller) !== true;
    });
    if (had + fresh.length <= MAX_VIEWS_OF_CALLER) return;
    throw new CtlError(
      'resource_exhausted',
      `the proxies of ${caller} have ${had} different configurations, and may not have more than ${MAX_VIEWS_OF_CALLER}`,
    );
  }

  /** Views that the sessions of a caller have. */
  countOf(caller: string): number {
    return this.#viewsOfCaller.get(caller) ?? 0;
  }

  /** The session is to have the view. */
  enter(placed: PlacedSessionView, session: Session): void {
    this.#idle.delete(placed);
    const known = placed.hasCaller(session.caller);
    placed.view.enter(placed, session);
    if (!known) this.#viewsOfCaller.set(session.caller, this.countOf(session.caller) + 1);
  }

  /**
   * The session does not have the view any more, at `now`, monotonic ms. True when it was the last to have it in any
   * placement.
   */
  leave(placed: PlacedSessionView, session: Session, now: number): boolean {
    const { view } = placed;
    if (!view.leave(placed, session)) return false;
    if (!placed.hasCaller(session.caller)) {
      const left = this.countOf(session.caller) - 1;
      if (left > 0) this.#viewsOfCaller.set(session.caller, left);
      else this.#viewsOfCaller.delete(session.caller);
    }
    if (placed.sessions.size > 0) return false;
    // Where nothing was made yet there is nothing to keep.
    if (placed.initialized || view.sessions.size === 0) this.#idle.set(placed, now);
    else view.removePlacement(placed);
    return view.sessions.size === 0;
  }

  /** Drops views that nobody has had for long, oldest first when there are too many. Costs what it drops. */
  sweep(now: number): void {
    for (const [placed, since] of this.#idle) {
      if (this.#idle.size <= MAX_IDLE_VIEWS && now - since <= IDLE_VIEW_MS) return;
      const { view } = placed;
      // Its turn comes when the job has ended.
      if (view.inFlight) continue;
      this.#idle.delete(placed);
      if (!view.removePlacement(placed)) this.#drop(view);
    }
  }

  #drop(state: SessionView): void {
    this.#views.delete(state.key);
    const scope = scopeIdOfView(state.view);
    if (this.#options.scopes.release(scope)) this.#options.onReleased(scope);
    this.reads.drop(state);
  }
}

/** Where a proxy has a view: of the inbound part nothing depends on the placement. */
function placementFor({ part }: View, placement: Placement): Placement {
  return part === 'inbound' ? NOWHERE : placement;
}
