/**
 * Jobs that wait for a generator, whose time is shared: first among groups, such as namespaces, then among the callers
 * of a group. The lane that has used the least time is served next (`time-shares.ts`), so thousands of jobs of one
 * namespace, or a job that takes a minute, delay the others by their share only.
 */
import { TimeShares } from '../../core/fairness/time-shares.ts';

/** To whom the time of a job is charged. */
export interface Lane {
  readonly group: string;
  /** Within the group. */
  readonly caller: string;
}

/**
 * The lane of a view of a caller's proxies. Service accounts share the time of their namespace. A caller without an
 * identity, which is an address, may claim any namespace: these share the time of the address.
 *
 * @param caller `spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/ACCOUNT`, or an address
 * @param namespace that of the view
 */
export function laneOf(caller: string, namespace: string): Lane {
  const account = caller.startsWith('spiffe://') ? caller.lastIndexOf('/sa/') : -1;
  return account < 0 ? { group: caller, caller: namespace } : { group: caller.slice(0, account), caller };
}

/** Jobs of one caller. Those that were begun are served before the others. */
interface Waiting<T> {
  readonly begun: Set<T>;
  readonly others: Set<T>;
}

interface Group<T> {
  readonly callers: Map<string, Waiting<T>>;
  readonly shares: TimeShares;
}

export interface Served<T> {
  readonly item: T;
  /** The lane that the job's time is to be charged to. */
  readonly lane: Lane;
}

/** Lane of a job without a caller. */
const NOBODY: Lane = { group: '', caller: '' };

/** Groups without waiting jobs whose callers' times are remembered. */
const MAX_REMEMBERED = 1024;

export class JobQueue<T> {
  readonly #shares = new TimeShares();
  /** Groups with waiting jobs, in the order of arrival. */
  readonly #groups = new Map<string, Group<T>>();
  /** The times that callers have used, of groups that wait or did so not long ago. */
  readonly #callerShares = new Map<string, TimeShares>();
  readonly #lanesOf = new Map<T, readonly Lane[]>();

  /** Number of waiting jobs. */
  get size(): number {
    return this.#lanesOf.size;
  }

  /**
   * Appends a job to each of these lanes; it is served once, at the first turn of any of them.
   *
   * @param begun whether it was served before, and is not done
   */
  add(item: T, lanes: Iterable<Lane>, { begun = false }: { readonly begun?: boolean } = {}): void {
    this.remove(item);
    const all = [...lanes];
    if (all.length === 0) all.push(NOBODY);
    this.#lanesOf.set(item, all);
    for (const lane of all) {
      const { begun: first, others } = this.#waiting(lane);
      (begun ? first : others).add(item);
    }
  }

  /** Removes a job; false when it does not wait. */
  remove(item: T): boolean {
    const lanes = this.#lanesOf.get(item);
    if (lanes === undefined) return false;
    this.#lanesOf.delete(item);
    for (const { group, caller } of lanes) {
      const callers = this.#groups.get(group)?.callers;
      const waiting = callers?.get(caller);
      waiting?.begun.delete(item);
      waiting?.others.delete(item);
      if (waiting?.begun.size === 0 && waiting.others.size === 0) callers?.delete(caller);
      if (callers?.size === 0) this.#groups.delete(group);
    }
    return true;
  }

  /**
   * Removes and returns the next job. The time that it takes has to be charged.
   *
   * @param accepts whether a job may be served now: a job that has begun must be continued by the same worker
   */
  next(accepts: (item: T) => boolean = () => true): Served<T> | undefined {
    let best: Served<T> | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const [name, group] of this.#groups) {
      const used = this.#shares.usedBy(name);
      if (used >= least) continue;
      const found = firstOf(group, name, accepts);
      if (found === undefined) continue;
      best = found;
      least = used;
    }
    if (best === undefined) return undefined;
    this.#shares.serve(best.lane.group);
    this.#groups.get(best.lane.group)?.shares.serve(best.lane.caller);
    this.remove(best.item);
    return best;
  }

  /** A job of this lane has taken this much time, ms. */
  charge({ group, caller }: Lane, milliseconds: number): void {
    this.#shares.charge(group, milliseconds);
    this.#sharesOf(group).charge(caller, milliseconds);
  }

  /** True when jobs of other lanes wait. */
  hasOthersThan({ group, caller }: Lane): boolean {
    for (const [name, { callers }] of this.#groups) {
      if (name !== group) return true;
      for (const other of callers.keys()) if (other !== caller) return true;
    }
    return false;
  }

  /** Removes and returns all jobs. */
  drain(): T[] {
    const items = [...this.#lanesOf.keys()];
    this.#lanesOf.clear();
    this.#groups.clear();
    return items;
  }

  #waiting({ group: name, caller }: Lane): Waiting<T> {
    let group = this.#groups.get(name);
    if (group === undefined) {
      group = { callers: new Map(), shares: this.#sharesOf(name) };
      this.#groups.set(name, group);
    }
    let waiting = group.callers.get(caller);
    if (waiting === undefined) {
      waiting = { begun: new Set(), others: new Set() };
      group.callers.set(caller, waiting);
    }
    return waiting;
  }

  #sharesOf(group: string): TimeShares {
    const shares = this.#callerShares.get(group) ?? new TimeShares();
    // The groups that were used last are remembered.
    this.#callerShares.delete(group);
    this.#callerShares.set(group, shares);
    for (const other of this.#callerShares.keys()) {
      if (this.#callerShares.size <= MAX_REMEMBERED + this.#groups.size) break;
      if (other !== group && !this.#groups.has(other)) this.#callerShares.delete(other);
    }
    return shares;
  }
}

/** The first job of the caller who has used the least time. */
function firstOf<T>(
  { callers, shares }: Group<T>,
  group: string,
  accepts: (item: T) => boolean,
): Served<T> | undefined {
  let best: Served<T> | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const [caller, { begun, others }] of callers) {
    const used = shares.usedBy(caller);
    if (used >= least) continue;
    const item = firstThat(begun, accepts) ?? firstThat(others, accepts);
    if (item === undefined) continue;
    best = { item, lane: { group, caller } };
    least = used;
  }
  return best;
}

function firstThat<T>(items: Iterable<T>, accepts: (item: T) => boolean): T | undefined {
  for (const item of items) if (accepts(item)) return item;
  return undefined;
}
