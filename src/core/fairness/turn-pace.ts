/**
 * Paces the start of new work, such as connections, while the thread is busy with earlier work: when a thousand proxies
 * connect at once, half are then complete in half of the time, instead of all of them at the end, and less memory is in
 * use. In a turn of the event loop, one piece of work may start for each `intervalMs` of the previous turn, at least
 * one and at most `most`. An idle thread has short turns, so that one start per turn causes no delay.
 */

export interface TurnPaceOptions {
  /** Time of the previous turn for each start, ms. */
  readonly intervalMs: number;
  /** Maximum number of starts in a turn. */
  readonly most: number;
  /** Monotonic ms. */
  readonly now: () => number;
  /** Called in the turn after one in which work has started: more may start now. */
  readonly resume: () => void;
  /** Calls `run` in the next turn of the event loop; setImmediate when left out. */
  readonly nextTurn?: ((run: () => void) => void) | undefined;
}

export class TurnPace {
  readonly #options: TurnPaceOptions;
  readonly #nextTurn: (run: () => void) => void;
  /** Starts that are left in this turn. */
  #left = 1;
  #planned = false;

  constructor(options: TurnPaceOptions) {
    this.#options = options;
    this.#nextTurn = options.nextTurn ?? setImmediate;
  }

  /** Whether work may start in this turn. */
  get admits(): boolean {
    return this.#left > 0;
  }

  /** Called when work has started. */
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
