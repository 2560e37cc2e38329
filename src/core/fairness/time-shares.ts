/**
 * How much time of a thread each caller has used, for queues that share this time among callers: the caller that used
 * the least time is served next, so a caller with expensive or very many items delays the others by its share only. The
 * tags are those of start-time fair queueing (Goyal, Vin and Cheng, IEEE/ACM Transactions on Networking 5(5), 1997): a
 * caller that was idle starts at the virtual time, so idle time cannot be saved up.
 *
 * With a quantum, as in deficit round robin (Shreedhar and Varghese, IEEE/ACM Transactions on Networking 4(3), 1996), a
 * caller whose turn has begun goes on until it has used its quantum: a thousand proxies that connect at once are served
 * one after the other, so half of them are done in half of the time, and what they share is still in the CPU's cache. A
 * caller waits for at most one quantum of each caller before it.
 *
 * If new callers started at the virtual time, a constant flow of new callers would stop the virtual time, and callers
 * that have used more would starve. Therefore new callers start at a clock, which advances with the time of callers
 * that others wait for, at half of the speed at which equal shares of that time grow.
 */

/** Maximum number of callers ahead of the virtual time that are remembered; those with the most used time are kept. */
const MAX_REMEMBERED = 4096;

/** Minimum time that is charged, ms: a clock may measure 0. */
const LEAST_MS = 0.001;

export class TimeShares {
  readonly #quantumMs: number;
  /** Callers that are ahead of the virtual time → time used, ms. */
  readonly #used = new Map<string, number>();
  /** The time that callers without an entry have used: that of the caller that was served last when its turn came. */
  #virtual = 0;
  /** The time at which new callers start, ms: not before the virtual time. */
  #clock = 0;
  /** The caller whose next work others wait for. */
  #contended: { readonly caller: string; readonly callers: number } | undefined;
  #sweepAt = MAX_REMEMBERED;

  /**
   * @param quantumMs the time that a caller may use before the next caller's turn, ms; 0: one item
   */
  constructor(quantumMs = 0) {
    this.#quantumMs = quantumMs;
  }

  /** The time that counts for a caller, ms. Grows with {@link charge}, and with the virtual time. */
  usedBy(caller: string): number {
    return Math.max(this.#used.get(caller) ?? 0, this.#virtual);
  }

  /** The caller of the lowest rank is served next. */
  rankOf(caller: string): number {
    const used = this.usedBy(caller);
    const begun = this.#quantumBefore(used);
    return begun === used ? used + this.#quantumMs / 2 : begun;
  }

  /**
   * Called when a caller is served because no waiting caller has a lower rank: the virtual time advances to its time.
   */
  serve(caller: string): void {
    this.#virtual = Math.max(this.#virtual, this.#quantumBefore(this.usedBy(caller)));
  }

  /** A caller begins to wait. */
  arrive(caller: string): void {
    const begins = this.#quantumBefore(this.#clock);
    if (begins > this.usedBy(caller)) this.#set(caller, begins);
  }

  /**
   * The next charge to this caller is time that other callers wait for. @param callers their number, including this one
   */
  contend(caller: string, callers: number): void {
    this.#contended = callers > 1 ? { caller, callers } : undefined;
  }

  /** The time that was charged to a caller, ms: it does not grow with the virtual time. */
  chargedTo(caller: string): number {
    return this.#used.get(caller) ?? 0;
  }

  #quantumBefore(used: number): number {
    return this.#quantumMs === 0 ? used : Math.floor(used / this.#quantumMs) * this.#quantumMs;
  }

  /** Charges time to a caller, even without a turn: work that cannot wait is counted as well. */
  charge(caller: string, milliseconds: number): void {
    this.#set(caller, this.usedBy(caller) + Math.max(milliseconds, LEAST_MS));
    if (this.#contended?.caller !== caller) return;
    this.#clock = Math.max(this.#clock, this.#virtual) + milliseconds / (2 * this.#contended.callers);
    this.#contended = undefined;
  }

  #set(caller: string, used: number): void {
    this.#used.set(caller, used);
    if (this.#used.size >= this.#sweepAt) this.#sweep();
  }

  /** Forgets callers that are no longer ahead; if too many are left, also those that are least ahead. */
  #sweep(): void {
    for (const [caller, used] of this.#used) if (used <= this.#virtual) this.#used.delete(caller);
    const excess = this.#used.size - MAX_REMEMBERED / 2;
    if (excess > 0) {
      const least = [...this.#used].sort(([, a], [, b]) => a - b).slice(0, excess);
      for (const [caller] of least) this.#used.delete(caller);
    }
    this.#sweepAt = MAX_REMEMBERED;
  }
}
