/**
 * Reviews that wait for a thread, which answers one at a time. A better rank comes first. The callers of a rank share
 * time, and so do the groups of a caller: the namespaces that it asks about. The time that reviews took is counted, not
 * their number (`time-shares.ts`). The next caller is the one that will have used the least time after its next review,
 * according to the expected duration of that review, so that small reviews do not wait for large ones of many new
 * callers.
 *
 * No caller can fill the queue alone. A group may have at most as many waiting reviews as its rank has free places, and
 * a caller four times as many: a single caller gets four of five places, and another one always finds some.
 */
import { TimeShares } from '../../core/fairness/time-shares.ts';

export interface Lane {
  /** Index into `rankShares` of the options: 0 is served first. */
  readonly rank: number;
  readonly caller: string;
  readonly group: string;
}

export interface ReviewQueueOptions {
  /** Maximum number of waiting reviews. */
  readonly capacity: number;
  /** By rank: the part of the capacity up to which reviews of this rank may fill the queue. */
  readonly rankShares: readonly number[];
}

/** A review that was taken. */
export interface Taken<T> {
  readonly item: T;
  /** Charges its lane with the time that it took, ms. To be called once, before another review is taken. */
  served(milliseconds: number): void;
}

/** Waiting reviews of one caller for each free place. */
const CALLER_PER_FREE = 4;

/** Callers without waiting reviews whose groups' times are remembered, for each rank. */
const MAX_IDLE_CALLERS = 64;

interface Waiting<T> {
  readonly item: T;
  /** Its expected duration, ms. */
  readonly estimate: number;
}

/** Who shares time. */
interface Sharer {
  readonly name: string;
  /** The time that it had used when its current first review became the first, ms. */
  begin: number;
  /** The expected duration of its first review, ms. */
  readonly estimate: number;
}

/** Sharers of the same time. */
class Level<S extends Sharer> {
  /** Callers with waiting reviews, by name. */
  readonly waiting = new Map<string, S>();
  readonly #shares = new TimeShares();

  /** The first review of a sharer begins to wait. */
  add(sharer: S): void {
    sharer.begin = this.#shares.usedBy(sharer.name);
    this.waiting.set(sharer.name, sharer);
  }

  /** The sharer that will have used the least time after the review at its head. */
  next(): S | undefined {
    let first: S | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const sharer of this.waiting.values()) {
      const end = sharer.begin + sharer.estimate;
      if (end >= least) continue;
      first = sharer;
      least = end;
    }
    return first;
  }

  /**
   * The review at the head of a sharer is taken.
   *
   * @returns to be called with the time that it took, ms
   */
  start({ name, begin }: S): (milliseconds: number) => void {
    this.#shares.serve(name);
    return (milliseconds) => {
      const used = begin + milliseconds;
      // The virtual time may have passed `begin` while the review waited for smaller ones: that is not charged.
      this.#shares.charge(name, used - this.#shares.usedBy(name));
      const waiting = this.waiting.get(name);
      if (waiting !== undefined) waiting.begin = used;
    };
  }
}

class Group<T> implements Sharer {
  readonly name: string;
  begin = 0;
  readonly waiting: Waiting<T>[] = [];

  constructor(name: string) {
    this.name = name;
  }

  get estimate(): number {
    return this.waiting[0]?.estimate ?? 0;
  }
}

class Caller<T> implements Sharer {
  readonly name: string;
  begin = 0;
  /** Number of waiting reviews. */
  size = 0;
  readonly groups = new Level<Group<T>>();

  constructor(name: string) {
    this.name = name;
  }

  get estimate(): number {
    return this.groups.next()?.estimate ?? 0;
  }
}

/** Callers of one rank. */
class Rank<T> {
  readonly level = new Level<Caller<T>>();
  /** Those with waiting reviews and those that had some not long ago, in the order of their last reviews. */
  readonly #callers = new Map<string, Caller<T>>();

  /** The caller, where it is remembered. */
  known(name: string): Caller<T> | undefined {
    return this.#callers.get(name);
  }

  /** The caller, which is remembered from now on. */
  caller(name: string): Caller<T> {
    const caller = this.#callers.get(name) ?? new Caller<T>(name);
    this.#callers.delete(name);
    this.#callers.set(name, caller);
    for (const other of this.#callers.values()) {
      if (this.#callers.size <= MAX_IDLE_CALLERS + this.level.waiting.size) break;
      if (other.size === 0 && other !== caller) this.#callers.delete(other.name);
    }
    return caller;
  }
}

export class AdmissionReviewQueue<T> {
  readonly #capacity: number;
  readonly #rankShares: readonly number[];
  readonly #ranks: readonly Rank<T>[];
  #size = 0;

  constructor({ capacity, rankShares }: ReviewQueueOptions) {
    this.#capacity = capacity;
    this.#rankShares = rankShares;
    this.#ranks = rankShares.map(() => new Rank<T>());
  }

  get size(): number {
    return this.#size;
  }

  /**
   * @param estimate what the review will take, ms
   * @returns false when its lane or the queue is full
   */
  push({ rank: rankNumber, caller: callerName, group: groupName }: Lane, item: T, estimate: number): boolean {
    const rank = this.#ranks[rankNumber];
    const free = this.#capacity * (this.#rankShares[rankNumber] ?? 0) - this.#size;
    const known = rank?.known(callerName);
    if (rank === undefined || free < 1) return false;
    if ((known?.size ?? 0) >= CALLER_PER_FREE * free) return false;
    if ((known?.groups.waiting.get(groupName)?.waiting.length ?? 0) >= free) return false;
    const caller = rank.caller(callerName);
    const group = caller.groups.waiting.get(groupName) ?? new Group<T>(groupName);
    group.waiting.push({ item, estimate });
    if (group.waiting.length === 1) caller.groups.add(group);
    if (++caller.size === 1) rank.level.add(caller);
    this.#size++;
    return true;
  }

  take(): Taken<T> | undefined {
    for (const { level } of this.#ranks) {
      const caller = level.next();
      const group = caller?.groups.next();
      const taken = group?.waiting.shift();
      if (caller === undefined || group === undefined || taken === undefined) continue;
      const charges = [level.start(caller), caller.groups.start(group)];
      if (group.waiting.length === 0) caller.groups.waiting.delete(group.name);
      if (--caller.size === 0) level.waiting.delete(caller.name);
      this.#size--;
      return {
        item: taken.item,
        served(milliseconds) {
          for (const charge of charges) charge(milliseconds);
        },
      };
    }
    return undefined;
  }

  /** Takes everything, in any order. */
  drain(): T[] {
    const items: T[] = [];
    for (let taken = this.take(); taken !== undefined; taken = this.take()) {
      taken.served(0);
      items.push(taken.item);
    }
    return items;
  }
}
