/**
 * Paces the beginnings of new work, such as connections, while the thread is busy with work that has begun: of a
 * thousand proxies that connect at once, half are then complete in half of the time, instead of all of them at the end,
 * and less memory is in use. In a turn of the event loop, one may begin for each `intervalMs` of the turn before, at
 * least one and at most `most`. A thread that has nothing else to do has short turns: one in each delays nothing.
 */

export interface TurnPaceOptions {
  /** Time of a turn for each beginning, ms. */
  readonly intervalMs: number;
  /** Most beginnings in a turn, however long the one before was. */
  readonly most: number;
  /** Monotonic ms. */
  readonly now: () => number;
  /** Called in the turn after one in which something has begun: more may begin, if anything waits. */
  readonly resume: () => void;
  /** Calls `run` in the next turn of the event loop; setImmediate when left out. */
  readonly nextTurn?: ((run: () => void) => void) | undefined;
}

export class TurnPace {
  readonly #options: TurnPaceOptions;
  readonly #nextTurn: (run: () => void) => void;
  /** Beginnings that are left in this turn. */
  #left = 1;
  #planned = false;

  constructor(options: TurnPaceOptions) {
    this.#options = options;
    this.#nextTurn = options.nextTurn ?? setImmediate;
  }

  /** False: the next one has to wait for another turn. */
  get admits(): boolean {
    return this.#left > 0;
  }

  /** One has begun. */
  began(): void {
    this.#left--;
    if (this.#planned) return;
    this.#planned = true;
    const { intervalMs, most, now, resume } = this.#options;
    const since = now();
    this.#nextTurn(() => {
      this.#planned = false;
      this.#left = Math.min(Math.max(Math.floor((now() - since) / intervalMs), 1), most);
      resume();
    });
  }
}
