/**
 * All live views and the dependency index over them: from what changed between two snapshots to the views that it concerns. Views
 * that no proxy has any more are kept for a while, so that a reconnect finds its configuration ready.
 */
import type { InboundView, View } from '../generate/types.ts';
import type { ChangeSet, Snapshot } from '../model/types.ts';
import type { Kind } from '../resources/types.ts';
import type { SessionView } from './session.ts';
import { ViewState } from './view-state.ts';
import { viewKey } from './views.ts';

/** Longer than a restart of a proxy or a roll-out of a workload takes. */
export const IDLE_VIEW_MS = 120_000;
/** Upper bound of views kept for nobody. */
export const MAX_IDLE_VIEWS = 256;

export class ViewTable {
  readonly #views = new Map<string, SessionView>();
  readonly #byScope = new Map<string, Set<SessionView>>();
  readonly #gateways = new Set<SessionView>();
  /** Inbound views under policies about requests. */
  readonly #guarded = new Set<SessionView>();
  /** Views that nobody has → monotonic ms since when, oldest first. */
  readonly #idle = new Map<SessionView, number>();

  get size(): number {
    return this.#views.size;
  }

  get(key: string): SessionView | undefined {
    return this.#views.get(key);
  }

  all(): Iterable<SessionView> {
    return this.#views.values();
  }

  /** The view's state, made when it is new. */
  take(view: View): SessionView {
    const key = viewKey(view);
    let state = this.#views.get(key);
    if (state === undefined) {
      state = new ViewState(key, view);
      this.#views.set(key, state);
      if (view.part === 'gateway') this.#gateways.add(state);
      else this.#scopeViews(view.scope).add(state);
      if (view.part === 'inbound' && isGuarded(view)) this.#guarded.add(state);
    }
    return state;
  }

  /** Outbound and inbound views of a scope. */
  ofScope(scope: string): Iterable<SessionView> {
    return this.#byScope.get(scope) ?? [];
  }

  /** Views that a change set may concern, given those with changed endpoints; what exactly, `affectedUnits` says of each. */
  concerned(change: ChangeSet, withEndpoints: Iterable<SessionView>): Iterable<SessionView> {
    if (change.everything) return [...this.#views.values()];
    const concerned = new Set(this.#gateways);
    for (const scope of change.scopes.keys()) {
      for (const view of this.ofScope(scope)) concerned.add(view);
    }
    for (const view of withEndpoints) concerned.add(view);
    if (changesPolicies(change)) for (const view of this.#guarded) concerned.add(view);
    return concerned;
  }

  /** Views that have clusters of services whose endpoints changed, with the host names. */
  withEndpointsOf(change: ChangeSet, snapshot: Snapshot): ReadonlyMap<SessionView, readonly string[]> {
    const found = new Map<SessionView, string[]>();
    const hostnames = new Set<string>();
    for (const key of change.endpoints) hostnames.add(snapshot.services.get(key)?.hostname ?? hostOfKey(key));
    if (hostnames.size === 0) return found;
    for (const view of this.#views.values()) {
      if (view.view.part === 'inbound') continue;
      const hosts = [...hostnames].filter((hostname) => view.hasHost(hostname));
      if (hosts.length > 0) found.set(view, hosts);
    }
    return found;
  }

  /** The view has a session (again). */
  occupied(view: SessionView): void {
    this.#idle.delete(view);
  }

  /** The view has lost its last session at `now`, monotonic ms. */
  vacated(view: SessionView, now: number): void {
    this.#idle.delete(view);
    this.#idle.set(view, now);
  }

  /** Drops views that nobody has had for long, oldest first when there are too many. Costs what it drops. */
  sweep(now: number): void {
    for (const [view, since] of this.#idle) {
      if (this.#idle.size <= MAX_IDLE_VIEWS && now - since <= IDLE_VIEW_MS) return;
      // Its turn comes when the job has ended.
      if (view.inFlight) continue;
      this.#idle.delete(view);
      this.#drop(view);
    }
  }

  #drop(state: SessionView): void {
    this.#views.delete(state.key);
    this.#gateways.delete(state);
    this.#guarded.delete(state);
    if (state.view.part === 'gateway') return;
    const views = this.#byScope.get(state.view.scope);
    views?.delete(state);
    if (views?.size === 0) this.#byScope.delete(state.view.scope);
  }

  #scopeViews(scope: string): Set<SessionView> {
    let views = this.#byScope.get(scope);
    if (views === undefined) {
      views = new Set();
      this.#byScope.set(scope, views);
    }
    return views;
  }
}

function isGuarded({ policies: { authentication, authorization } }: InboundView): boolean {
  return authentication.length > 0 || authorization.length > 0;
}

/** Kinds that generation reads for policies about requests. */
const POLICY_KINDS: readonly Kind[] = ['AuthorizationPolicy', 'JsonWebKeySet', 'RequestAuthentication'];

function changesPolicies({ configs }: ChangeSet): boolean {
  for (const key of configs.keys()) if (POLICY_KINDS.some((kind) => key.startsWith(`${kind}/`))) return true;
  return false;
}

/** Host name of a service key `namespace/hostname`. */
function hostOfKey(key: string): string {
  return key.slice(key.indexOf('/') + 1);
}
