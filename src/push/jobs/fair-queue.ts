/**
 * A queue that serves its callers round-robin: a caller with a thousand items gets one of them served per round, as
 * every other caller does. An item of several callers is served at the first of their turns.
 */
import { InternalError } from '../../core/errors.ts';

export class FairQueue<T> {
  /** Items by caller: the map is in the order of turns, each set in the order of arrival. */
  readonly #lanes = new Map<string, Set<T>>();
  readonly #callersOf = new Map<T, readonly string[]>();

  /** Number of waiting items. */
  get size(): number {
    return this.#callersOf.size;
  }

  has(item: T): boolean {
    return this.#callersOf.has(item);
  }

  /**
   * Appends an item to the lane of each of these callers; without callers, to that of ''. Does nothing when the item
   * waits already.
   */
  add(item: T, callers: Iterable<string>): void {
    if (this.#callersOf.has(item)) return;
    const names = [...callers];
    if (names.length === 0) names.push('');
    this.#callersOf.set(item, names);
    for (const name of names) {
      const lane = this.#lanes.get(name);
      if (lane === undefined) this.#lanes.set(name, new Set([item]));
      else lane.add(item);
    }
  }

  /** Removes an item; false when it is not in the queue. */
  remove(item: T): boolean {
    const callers = this.#callersOf.get(item);
    if (callers === undefined) return false;
    this.#callersOf.delete(item);
    for (const name of callers) {
      const lane = this.#lanes.get(name);
      lane?.delete(item);
      if (lane?.size === 0) this.#lanes.delete(name);
    }
    return true;
  }

  /**
   * Removes and returns the next item: the first of the caller whose turn it is. That caller's next turn is the last.
   */
  shift(): T | undefined {
    const [turn] = this.#lanes;
    if (turn === undefined) return undefined;
    const [name, lane] = turn;
    const [item] = lane;
    if (item === undefined) throw new InternalError('an empty lane is kept');
    this.remove(item);
    // Moves to the end of the turns while the caller has more items.
    if (this.#lanes.delete(name)) this.#lanes.set(name, lane);
    return item;
  }

  /** Removes and returns all items. */
  drain(): T[] {
    const items = [...this.#callersOf.keys()];
    this.#callersOf.clear();
    this.#lanes.clear();
    return items;
  }
}
