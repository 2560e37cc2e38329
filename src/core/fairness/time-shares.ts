/**
 * How much time of a thread each caller has used, for queues that share this time among callers: the caller that used
 * least is served next, so a caller with expensive or very many items delays the others by its share only. The tags are
 * those of start-time fair queueing (Goyal, Vin and Cheng, IEEE/ACM Transactions on Networking 5(5), 1997): a caller
 * that was idle starts at the virtual time, so idle time cannot be saved up.
 *
 * With a quantum, as in deficit round robin (Shreedhar and Varghese, IEEE/ACM Transactions on Networking 4(3), 1996), a
 * caller whose turn has begun goes on until it has used its quantum: a thousand proxies that connect at once are served
 * one after the other, so half of them are done in half of the time, and what they share is still in the CPU's cache.
 * Another caller waits for one quantum of each caller before it at most.
 *
 * If new callers began at the virtual time, it would stop while there is always a new one, and callers that have used
 * more would wait for ever. So there is a clock, which moves on with the time of callers that others wait for, at half
 * of the speed at which equal shares of that time grow: who begins to wait begins there.
 */

/** Callers that are remembered beyond the virtual time: those with the most used time last longest. */
const MAX_REMEMBERED = 4096;

/** Least time of one piece of work, ms: a clock may not see it at all. */
const LEAST_MS = 0.001;

export class TimeShares {
  readonly #quantumMs: number;
  /** Callers that are ahead of the virtual time → time used, ms. */
  readonly #used = new Map<string, number>();
  /** The time that callers without an entry have used: that of the caller that was served last when its turn came. */
  #virtual = 0;
  /** Where callers begin that begin to wait, ms: not before the virtual time. */
  #clock = 0;
  /** The caller whose next work others wait for. */
  #contended: { readonly caller: string; readonly callers: number } | undefined;
  #sweepAt = MAX_REMEMBERED;

  /** @param quantumMs what a caller may use before it is another's turn, ms; 0: as little as possible */
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

  /** A caller is served because nobody who waits has a lower rank: the virtual time moves on to its time. */
  serve(caller: string): void {
    this.#virtual = Math.max(this.#virtual, this.#quantumBefore(this.usedBy(caller)));
  }

  /** A caller begins to wait. */
  arrive(caller: string): void {
    const begins = this.#quantumBefore(this.#clock);
    if (begins > this.usedBy(caller)) this.#set(caller, begins);
  }

  /** The next charge to this caller is time that other callers wait for. @param callers their number, and this one */
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

  /** A caller has used this much time. Needs no turn: work that cannot wait is counted as well. */
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

  /** Forgets callers that are not ahead any more; when too many are left, also those that are ahead least. */
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
