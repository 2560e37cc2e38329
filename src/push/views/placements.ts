/** The placements of one view, and the sessions of the proxies in them. */
import type { Placement } from '../../generate/index.ts';
import { placementKey } from '../proxies/index.ts';
import { type Bundles, type Member, type OwnerView, PlacedView } from './placed-view.ts';

export class Placements<S extends Member, V extends OwnerView> {
  readonly #view: V;
  readonly #initial: () => Bundles;
  /** By key; includes placements that proxies have left recently. */
  readonly #placed = new Map<string, PlacedView<S, V>>();
  readonly #sessions = new Set<S>();

  /** @param initial what a new placement has */
  constructor(view: V, initial: () => Bundles) {
    this.#view = view;
    this.#initial = initial;
  }

  get size(): number {
    return this.#placed.size;
  }

  /** Sessions that have the view, or are moving to it. */
  get sessions(): ReadonlySet<S> {
    return this.#sessions;
  }

  all(): MapIterator<PlacedView<S, V>> {
    return this.#placed.values();
  }

  /** The view in a placement, which is created when it is new. */
  ensure(placement: Placement): PlacedView<S, V> {
    const key = placementKey(placement);
    let placed = this.#placed.get(key);
    if (placed === undefined) {
      placed = new PlacedView(this.#view, key, placement, this.#initial());
      this.#placed.set(key, placed);
    }
    return placed;
  }

  find(placement: Placement): PlacedView<S, V> | undefined {
    return this.#placed.get(placementKey(placement));
  }

  remove({ key }: PlacedView<S, V>): void {
    this.#placed.delete(key);
  }

  /** Does nothing when the session is there already. */
  enter(placed: PlacedView<S, V>, session: S): void {
    if (placed.enter(session)) this.#sessions.add(session);
  }

  /** False when the session was not there. A session that moves is in two placements for a time. */
  leave(placed: PlacedView<S, V>, session: S): boolean {
    if (!placed.leave(session)) return false;
    if (!this.all().some(({ sessions }) => sessions.has(session))) this.#sessions.delete(session);
    return true;
  }

  /** The callers of the sessions. */
  callers(): ReadonlySet<string> {
    return new Set(this.all().flatMap((placed) => placed.callers()));
  }

  /** Whether a session holds the name, or waits for it. */
  isHeld(name: string): boolean {
    return this.all().some((placed) => placed.isHeld(name));
  }
}
