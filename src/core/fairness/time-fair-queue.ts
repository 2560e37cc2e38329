/**
 * A queue that serves the caller that has used the least time (see time-shares.ts), and the items of one caller in
 * their order. Several queues of one thread may share the account of time: a caller that has used much time in one
 * queue waits longer in the others. A caller that may not be served now is skipped: it keeps its place and its used
 * time.
 */
import { Lane } from './lane.ts';
import { TimeShares } from './time-shares.ts';

interface CallerLane<T> {
  readonly caller: string;
  readonly items: Lane<T>;
  /** Its current entry in the heap; other entries are outdated. */
  filed: Filed<T> | undefined;
}

/** A lane, by the rank that its caller had when it was filed. */
interface Filed<T> {
  readonly lane: CallerLane<T>;
  readonly rank: number;
  /** The time that was charged to the caller by then, ms. */
  readonly charged: number;
  /** Lanes of equal rank are served in this order. */
  readonly order: number;
}

function isBefore<T>(a: Filed<T>, b: Filed<T>): boolean {
  return a.rank === b.rank ? a.order < b.order : a.rank < b.rank;
}

export class TimeFairQueue<T> {
  readonly #shares: TimeShares;
  readonly #lanes = new Map<string, CallerLane<T>>();
  /** A binary heap: the lane of the next caller is the first. */
  readonly #heap: Filed<T>[] = [];
  /** Lanes that were passed over; they keep their places. */
  #passed: Filed<T>[] = [];
  /** The lane of the item that was taken last. */
  #served: CallerLane<T> | undefined;
  #order = 0;
  #size = 0;

  constructor(shares = new TimeShares()) {
    this.#shares = shares;
  }

  /** Number of waiting items. */
  get size(): number {
    return this.#size;
  }

  /**
   * Appends an item of a caller. An item that already waits is not added again. @param preferred whether the item comes
   * before the caller's other items
   */
  add(caller: string, item: T, preferred = false): void {
    let lane = this.#lanes.get(caller);
    if (lane === undefined) {
      lane = { caller, items: new Lane(), filed: undefined };
      this.#lanes.set(caller, lane);
      this.#shares.arrive(caller);
    }
    if (!lane.items.add(item, preferred)) return;
    this.#size++;
    // Its turn may have begun since it was filed.
    const rank = this.#shares.rankOf(caller);
    if (lane.filed === undefined || rank < lane.filed.rank) this.#file(lane, rank);
  }

  /** Removes an item that waits; does nothing when it does not. */
  remove(caller: string, item: T): void {
    // An empty lane stays filed until its turn.
    if (this.#lanes.get(caller)?.items.delete(item) === true) this.#size--;
  }

  /** Number of waiting items of a caller. */
  sizeOf(caller: string): number {
    return this.#lanes.get(caller)?.items.size ?? 0;
  }

  /**
   * Removes and returns the next item. The time that it takes has to be charged to its caller before the next call.
   * @param accepts whether the first item of a caller may be served now. If not, this and later calls skip the caller
   * until {@link retry}, so that a call costs little even if many callers may not be served
   */
  next(accepts: (item: T) => boolean = () => true): T | undefined {
    // The caller that was served last is inserted now, because its used time is now known.
    if (this.#served !== undefined) this.#settle(this.#served);
    for (let filed = this.#unfile(); filed !== undefined; filed = this.#unfile()) {
      const { lane } = filed;
      if (lane.filed !== filed) continue;
      const item = lane.items.first;
      if (item === undefined) {
        lane.filed = undefined;
        this.#lanes.delete(lane.caller);
      } else if (this.#mayBeLater(filed)) this.#file(lane, this.#shares.rankOf(lane.caller));
      else if (accepts(item)) return this.#take(lane);
      else this.#passed.push(filed);
    }
    return undefined;
  }

  /** The skipped callers may be served again, in their former places. */
  retry(): void {
    const passed = this.#passed;
    this.#passed = [];
    for (const filed of passed) if (filed.lane.filed === filed) this.#insert(filed);
  }

  /**
   * Whether its caller has used time since it was filed and another caller waits. An advance of the virtual time does
   * not count.
   */
  #mayBeLater({ lane: { caller }, rank, charged }: Filed<T>): boolean {
    if (this.#heap.length === 0 || this.#shares.chargedTo(caller) <= charged) return false;
    return this.#shares.rankOf(caller) > rank;
  }

  #take(lane: CallerLane<T>): T | undefined {
    lane.filed = undefined;
    this.#size--;
    // A skipped caller has used less time: the virtual time must not advance past it.
    if (this.#passed.length === 0) this.#shares.serve(lane.caller);
    this.#shares.contend(lane.caller, this.#lanes.size);
    this.#served = lane;
    return lane.items.take();
  }

  #settle(lane: CallerLane<T>): void {
    this.#served = undefined;
    if (lane.filed !== undefined) return;
    if (lane.items.size > 0) this.#file(lane, this.#shares.rankOf(lane.caller));
    else this.#lanes.delete(lane.caller);
  }

  #file(lane: CallerLane<T>, rank: number): void {
    const filed = { lane, rank, charged: this.#shares.chargedTo(lane.caller), order: this.#order++ };
    lane.filed = filed;
    this.#insert(filed);
  }

  #insert(filed: Filed<T>): void {
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
