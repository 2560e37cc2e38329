/**
 * Shares the turns of the event loop between the callers of a server. Early in a turn, the work that a client causes is
 * done at once. Later in the turn it waits, and the callers that have used the least time are served first (see
 * src/core/fairness/time-shares.ts): a client with thousands of connections, or with requests that take long to read,
 * delays the others by its share only.
 */
import { TimeFairQueue } from '../../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../../core/fairness/time-shares.ts';

/** Time of a turn in which work is done at once, ms: several hundred acknowledgements. */
const TURN_MS = 20;

/**
 * The same limit if all work of the turn was for one caller: no other caller waits, and deferring work has a cost, too.
 */
const TURN_ALONE_MS = 40;

/** Time of all waiting work in a turn, ms. */
const ROUND_MS = 20;

/**
 * Time of one piece of work, ms. A read of what proxies send when they connect, some 100 kB of names, takes less. The
 * handlers of calls may take as long again afterwards.
 */
const SLICE_MS = 2;

/** The same in a turn that has already taken long. */
const SHORT_SLICE_MS = 0.5;

/** Work that waits. */
export interface Task {
  /** The caller to which its time is charged. */
  readonly caller: string;
  /** Continues until {@link TurnScheduler.late}; false when some work is left. */
  proceed(): boolean;
}

export interface TurnSchedulerOptions {
  /** Monotonic ms. */
  readonly now: () => number;
  /** Calls `run` in this turn of the event loop after its sockets; setImmediate when left out. */
  readonly later?: (run: () => void) => void;
  /** The time that callers have used; by default only the time of this scheduler's work counts. */
  readonly shares?: TimeShares | undefined;
}

export class TurnScheduler {
  /** Monotonic ms. */
  readonly now: () => number;
  readonly #later: (run: () => void) => void;
  readonly #shares: TimeShares;
  readonly #waiting: TimeFairQueue<Task>;
  /** Waiting tasks, and the callers that they wait for. */
  readonly #callers = new Map<Task, string>();
  /** Time of this turn that is used, ms. */
  #spentMs = 0;
  /** The caller that used all of it; empty if there were several. */
  #alone: string | undefined;
  #until = 0;
  #running = false;
  /** A round is scheduled for the end of this turn. */
  #scheduled = false;

  constructor({ now, later = setImmediate, shares = new TimeShares() }: TurnSchedulerOptions) {
    this.now = now;
    this.#later = later;
    this.#shares = shares;
    this.#waiting = new TimeFairQueue(shares);
  }

  /** True when the slice is over. To be called between the steps of work. */
  readonly late = (): boolean => this.now() >= this.#until;

  /** Whether work of this caller may be done at once; otherwise it should be enqueued. */
  isYoung(caller: string): boolean {
    const alone = this.#waiting.size === 0 && (this.#alone === undefined || this.#alone === caller);
    return this.#spentMs < (alone ? TURN_ALONE_MS : TURN_MS);
  }

  /** Does a slice of work and charges its time. Nested work is part of the work that causes it. */
  run<T>(caller: string, work: () => T): T {
    if (this.#running) return work();
    const started = this.now();
    this.#until = started + (this.isYoung(caller) ? SLICE_MS : SHORT_SLICE_MS);
    this.#running = true;
    try {
      return work();
    } finally {
      this.#running = false;
      this.spend(caller, this.now() - started);
    }
  }

  /** Counts time that a caller has taken in another turn. */
  charge(caller: string, milliseconds: number): void {
    this.#shares.charge(caller, milliseconds);
  }

  /** Counts time of this turn. */
  spend(caller: string, milliseconds: number): void {
    this.charge(caller, milliseconds);
    if (this.#spentMs === 0) this.#alone = caller;
    else if (this.#alone !== caller) this.#alone = '';
    this.#spentMs += milliseconds;
    this.#schedule();
  }

  /** Does work at once if the turn is young; what is left is done later. */
  start(task: Task): void {
    if (!this.isYoung(task.caller) || !this.run(task.caller, () => task.proceed())) this.enqueue(task);
  }

  /** Lets a task proceed later. Does nothing when it waits already. */
  enqueue(task: Task): void {
    if (this.#callers.has(task)) return;
    const { caller } = task;
    this.#callers.set(task, caller);
    this.#waiting.add(caller, task);
    this.#schedule();
  }

  /** The task is dropped. */
  forget(task: Task): void {
    const caller = this.#callers.get(task);
    if (caller === undefined) return;
    this.#callers.delete(task);
    this.#waiting.remove(caller, task);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#later(() => this.#round());
  }

  /** Runs after the sockets of a turn of the event loop. */
  #round(): void {
    this.#scheduled = false;
    this.#spentMs = 0;
    this.#alone = undefined;
    for (let task = this.#waiting.next(); task !== undefined; task = this.#waiting.next()) {
      const next = task;
      this.#callers.delete(next);
      if (!this.run(next.caller, () => next.proceed())) this.enqueue(next);
      if (this.#spentMs >= ROUND_MS) break;
    }
    if (this.#waiting.size > 0) this.#schedule();
  }
}
