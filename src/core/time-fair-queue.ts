/**
 * A queue that serves the caller that has used the least time (see time-shares.ts), and the items of one caller in
 * their order. Several queues of one thread may share the account of time: who has used much time by one kind of work
 * waits longer for the others.
 */
import { TimeShares } from './time-shares.ts';

interface Lane<T> {
  readonly caller: string;
  readonly items: Set<T>;
}

/** A lane with items, by the time that its caller had used when it was filed. */
interface Filed<T> {
  readonly lane: Lane<T>;
  readonly used: number;
  /** Lanes with equal times are served in this order. */
  readonly order: number;
}

function isBefore<T>(a: Filed<T>, b: Filed<T>): boolean {
  return a.used === b.used ? a.order < b.order : a.used < b.used;
}

export class TimeFairQueue<T> {
  readonly #shares: TimeShares;
  readonly #lanes = new Map<string, Lane<T>>();
  /** A binary heap: the lane of the next caller is the first. */
  readonly #heap: Filed<T>[] = [];
  #order = 0;
  #size = 0;

  constructor(shares = new TimeShares()) {
    this.#shares = shares;
  }

  /** Number of waiting items. */
  get size(): number {
    return this.#size;
  }

  /** Appends an item to those of its caller. Does nothing when it waits already. */
  add(caller: string, item: T): void {
    let lane = this.#lanes.get(caller);
    if (lane === undefined) {
      lane = { caller, items: new Set() };
      this.#lanes.set(caller, lane);
      this.#file(lane);
    }
    if (lane.items.has(item)) return;
    lane.items.add(item);
    this.#size++;
  }

  /** Removes an item that waits; does nothing when it does not. */
  remove(caller: string, item: T): void {
    // An empty lane stays filed until its turn.
    if (this.#lanes.get(caller)?.items.delete(item) === true) this.#size--;
  }

  /** Removes and returns the next item. What it costs has to be charged to its caller. */
  next(): T | undefined {
    for (;;) {
      const filed = this.#unfile();
      if (filed === undefined) return undefined;
      const { lane } = filed;
      if (lane.items.size === 0) {
        this.#lanes.delete(lane.caller);
        continue;
      }
      // It has used time since it was filed.
      if (this.#heap.length > 0 && this.#shares.isBeyond(lane.caller, filed.used)) this.#file(lane);
      else return this.#take(lane);
    }
  }

  #take(lane: Lane<T>): T | undefined {
    const [item] = lane.items;
    if (item === undefined) return undefined;
    lane.items.delete(item);
    this.#size--;
    this.#shares.serve(lane.caller);
    this.#file(lane);
    return item;
  }

  #file(lane: Lane<T>): void {
    const filed = { lane, used: this.#shares.usedBy(lane.caller), order: this.#order++ };
    const heap = this.#heap;
    let at = heap.length;
    heap.push(filed);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !isBefore(filed, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = filed;
  }

  #unfile(): Filed<T> | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      const [left, right] = [heap[child], heap[child + 1]];
      if (left === undefined) break;
      let least = left;
      if (right !== undefined && isBefore(right, left)) {
        least = right;
        child++;
      }
      if (!isBefore(least, last)) break;
      heap[at] = least;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}
