/**
 * How much time of the main thread the documents of each namespace took to be read (parsed and validated), for the
 * queues of all sources. It decides whose document is read next (`core/fairness/time-shares.ts`), and which namespace
 * has to wait. A namespace with costly documents may use a quarter of the thread's time: when it has used {@link
 * BURST_MS} at once, its next documents wait, for longer than CTL_DEBOUNCE_AFTER, so that the changes of other
 * namespaces are published meanwhile.
 */
import { TimeShares } from '../../core/fairness/time-shares.ts';
import type { ReadingPlace } from './reading-class.ts';

/** Documents that take less than this, ms, do not make a namespace wait: many small changes are normal. */
export const COSTLY_MS = 5;
/** Time that costly documents of a namespace may take at once, ms. */
export const BURST_MS = 100;
/** The share of the thread's time that costly documents of one namespace may use in the long run. */
const SHARE = 1 / 4;
/** Maximum wait, ms. */
export const MAX_REST_MS = 5000;
/** From this number on, namespaces whose time is available again are forgotten. */
const SWEEP_AT = 1024;

/** Times are monotonic ms. */
interface Budget {
  /** When the whole budget is available again. */
  readonly fullAt: number;
  readonly restsUntil: number;
}

export class ReadingShares {
  /** Selects the next namespace; shared by the queues of all sources. */
  readonly times = new TimeShares();
  /** Selects the next class. */
  readonly classTimes = new TimeShares();
  readonly #now: () => number;
  readonly #budgets = new Map<string, Budget>();

  /** @param now monotonic ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** A document took this much time. */
  charge({ namespace, readingClass }: ReadingPlace, milliseconds: number): void {
    this.classTimes.charge(readingClass, milliseconds);
    this.times.charge(namespace, milliseconds);
    if (milliseconds < COSTLY_MS) return;
    const now = this.#now();
    const before = this.#budgets.get(namespace);
    const fullAt = Math.min(Math.max(now, before?.fullAt ?? now) + milliseconds / SHARE, now + MAX_REST_MS);
    const isUsedUp = fullAt - now >= BURST_MS / SHARE;
    this.#budgets.set(namespace, { fullAt, restsUntil: isUsedUp ? fullAt : (before?.restsUntil ?? now) });
    if (this.#budgets.size >= SWEEP_AT) this.#sweep(now);
  }

  /** How long the namespace has to wait, ms; 0 for the classes that never wait. */
  restOf(namespace: string): number {
    const budget = this.#budgets.get(namespace);
    return budget === undefined ? 0 : Math.max(0, budget.restsUntil - this.#now());
  }

  #sweep(now: number): void {
    for (const [namespace, { fullAt }] of this.#budgets) if (fullAt <= now) this.#budgets.delete(namespace);
  }
}
