/**
 * A queue that serves its callers in turns: whoever has put in a thousand items waits for each of them while all others
 * get one of theirs. An item that several callers want is served at the first of their turns.
 */
export class FairQueue<T> {
  /** Items by caller; the order of the map is the order of the turns, the order of a set that of arrival. */
  readonly #lanes = new Map<string, Set<T>>();
  readonly #callersOf = new Map<T, readonly string[]>();

  /** Items that wait. */
  get size(): number {
    return this.#callersOf.size;
  }

  has(item: T): boolean {
    return this.#callersOf.has(item);
  }

  /**
   * Puts an item last in the lane of each of these callers; '' stands for none in particular. Does nothing for one that
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

  /** Takes an item out; false when it does not wait here. */
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

  /** Takes the next item out: the first of the caller whose turn it is, who then waits for all others. */
  shift(): T | undefined {
    const [turn] = this.#lanes;
    if (turn === undefined) return undefined;
    const [name, lane] = turn;
    const [item] = lane;
    if (item === undefined) throw new TypeError('an empty lane is kept');
    this.remove(item);
    // Last among the turns, if there is more of this caller.
    if (this.#lanes.delete(name)) this.#lanes.set(name, lane);
    return item;
  }

  /** Takes all out. */
  drain(): T[] {
    const items = [...this.#callersOf.keys()];
    this.#callersOf.clear();
    this.#lanes.clear();
    return items;
  }
}
