/**
 * All live views, and their reads. Views without proxies are kept for a while, so that the configuration is available
 * for a proxy that reconnects.
 */
import type { ProxyNode } from '../../core/proxy.ts';
import { DEFAULT_PLACEMENT, isClientView, type Placement, scopeIdOfView, type View } from '../../generate/index.ts';
import type { ServiceKey, Snapshot } from '../../model/index.ts';
import { placedViewKey, placementKey, registeredViews, viewKey } from '../proxies/index.ts';
import { ViewReads } from '../reads/index.ts';
import type { PlacedSessionView, Session, SessionView } from '../sessions/index.ts';
import type { LeadsTo } from '../types.ts';
import { type BuildFailure, type Encoders, type LaterOptions, ViewState } from '../views/index.ts';
import { CallerViews } from './caller-views.ts';

/** How long an idle view is kept: longer than the restart of a proxy or the rollout of a workload takes. */
export const IDLE_VIEW_MS = 120_000;
/** Limit of idle views. */
export const MAX_IDLE_VIEWS = 256;

/** Keeps scopes up to date while views use them. */
export interface ScopeOwner {
  acquire(id: string): void;
  /** True when the scope has no user any more. */
  release(id: string): boolean;
}

export interface ViewTableOptions {
  readonly scopes: ScopeOwner;
  /** Called with a scope that no view uses any more. */
  readonly onReleased: (id: string) => void;
  /** The current snapshot, from which jobs that are taken now are generated. */
  readonly snapshot: () => Snapshot;
  readonly laterClusters?: LaterOptions | undefined;
  readonly leadsTo?: LeadsTo | undefined;
  /** Clusters of the view are to be generated that it does not have yet. */
  readonly onWanted: (view: SessionView) => void;
}

/** The views of a proxy that workloads of the registry need. */
interface Registered {
  readonly node: ProxyNode;
  readonly snapshot: Snapshot;
  readonly views: ReadonlyMap<string, string>;
}

interface UpdatedEndpoints {
  /** Some view has clusters of the services. */
  readonly found: boolean;
  /** The placements with changed endpoints, and the names of these. */
  readonly changed: ReadonlyMap<PlacedSessionView, readonly string[]>;
  readonly failures: readonly BuildFailure[];
}

export class ViewTable {
  readonly #options: ViewTableOptions;
  readonly #views = new Map<string, SessionView>();
  readonly reads = new ViewReads<SessionView>();
  /** The last proxy's: its views are looked up one after the other. */
  #registered: Registered | undefined;
  /** A view counts once for each placement. */
  readonly #ofCallers = new CallerViews<PlacedSessionView>();
  /** Idle views, in a placement → monotonic ms since when, oldest first. */
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

  #newView(key: string, view: View): SessionView {
    const { snapshot, laterClusters: when, leadsTo, onWanted } = this.#options;
    const state: SessionView = new ViewState(key, view, snapshot, { when, leadsTo, onWanted: () => onWanted(state) });
    return state;
  }

  /**
   * The state of a view in a placement, created when it is new.
   *
   * @param current the views that the proxy has
   */
  take(view: View, placement: Placement, current: readonly PlacedSessionView[] = []): PlacedSessionView {
    const key = viewKey(view);
    let state = this.#views.get(key);
    if (state === undefined) {
      this.#options.scopes.acquire(scopeIdOfView(view));
      state = this.#newView(key, view);
      this.#views.set(key, state);
    }
    const left = current.find((placed) => placed.view.view.part === view.part)?.view;
    if (left !== undefined && left !== state) state.inherit(left);
    return state.ensurePlacement(placementFor(view, placement));
  }

  /** Encodes the endpoints of these services' clusters again, in all views that have some. */
  updateEndpoints(services: ReadonlySet<ServiceKey>, encoders: Encoders): UpdatedEndpoints {
    const changed = new Map<PlacedSessionView, readonly string[]>();
    const failures: BuildFailure[] = [];
    const concerned = this.reads.withClustersOf(services);
    for (const [view, hostnames] of concerned) {
      const update = view.updateEndpoints(hostnames, this.#options.snapshot(), encoders);
      failures.push(...update.failures);
      for (const placed of update.changed) changed.set(placed, update.names);
    }
    return { found: concerned.size > 0, changed, failures };
  }

  /** Throws CtlError `resource_exhausted` when the caller would have more views than the limit. */
  admit(caller: string, node: ProxyNode, views: readonly View[], placement: Placement): void {
    if (this.#ofCallers.mayHave(caller, views.length)) return;
    const fresh = views.flatMap((view) => {
      const key = viewKey(view);
      const placedAt = placementFor(view, placement);
      if (this.#views.get(key)?.findPlacement(placedAt)?.hasCaller(caller) === true) return [];
      return [() => this.#registeredKey(node, placedViewKey(key, placementKey(placedAt)))];
    });
    this.#ofCallers.admit(caller, fresh);
  }

  /** Number of views of a caller that count for its limit. */
  countOf(caller: string): number {
    return this.#ofCallers.countOf(caller);
  }

  /** Adds a session to a view. */
  enter(placed: PlacedSessionView, session: Session): void {
    this.#idle.delete(placed);
    const { caller, node } = session;
    const known = placed.hasCaller(caller);
    placed.view.enter(placed, session);
    if (known) return;
    const key = placedViewKey(placed.view.key, placed.key);
    this.#ofCallers.enter(caller, placed, () => this.#registeredKey(node, key));
  }

  #registeredKey(node: ProxyNode, placedView: string): string | undefined {
    const snapshot = this.#options.snapshot();
    if (this.#registered?.node !== node || this.#registered.snapshot !== snapshot)
      this.#registered = { node, snapshot, views: registeredViews(snapshot, node) };
    return this.#registered.views.get(placedView);
  }

  /**
   * Removes a session from a view, at `now`, monotonic ms. True when it was the view's last session in any placement.
   */
  leave(placed: PlacedSessionView, session: Session, now: number): boolean {
    const { view } = placed;
    if (!view.leave(placed, session)) return false;
    if (!placed.hasCaller(session.caller)) this.#ofCallers.leave(session.caller, placed);
    if (placed.sessions.size > 0) return false;
    // An uninitialized placement need not be kept.
    if (placed.initialized || view.sessions.size === 0) this.#idle.set(placed, now);
    else view.removePlacement(placed);
    return view.sessions.size === 0;
  }

  /**
   * Drops views that were idle for too long, and the oldest if there are too many. The cost follows the number of
   * dropped views.
   */
  sweep(now: number): void {
    for (const [placed, since] of this.#idle) {
      if (this.#idle.size <= MAX_IDLE_VIEWS && now - since <= IDLE_VIEW_MS) return;
      const { view } = placed;
      // A later sweep drops it, after the job.
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

/** The placement of a view for a proxy: the parts of servers do not depend on it. */
function placementFor(view: View, placement: Placement): Placement {
  return isClientView(view) ? placement : DEFAULT_PLACEMENT;
}

/** True when some session keeps the view or moves to it. */
export function isWanted(view: SessionView): boolean {
  for (const placed of view.placements()) for (const session of placed.sessions) if (session.wants(placed)) return true;
  return false;
}
