/**
 * One line for each push that changed something for some proxy: what, for how many proxies, how long it took until the
 * last of them had acknowledged it. Changes that follow each other faster than lines may be written share one.
 */

/** Time between two lines, ms. */
const LEAST_MS = 1000;
/** After so long, ms, a line says how far the push is. */
const PATIENCE_MS = 10_000;
/** Changed resources that a line names. */
const NAMED = 3;
/** Changed resources that are counted: of more it is enough to know that there are. */
const MAX_COUNTED = 10_000;

export interface PushLogOptions {
  readonly write: (line: string) => void;
  readonly later: (ms: number, run: () => void) => void;
}

export class PushLog {
  readonly #options: PushLogOptions;
  /** Resources changed since the last line that told of some. */
  readonly #changed = new Set<string>();
  /** Proxies that a change is on its way to. */
  #underWay = 0;
  /** Since the last line: proxies that have acknowledged a change, and the longest that one took, ms. */
  readonly #done = new Set<string>();
  #longestMs = 0;
  #waiting = false;
  #patient = false;

  constructor(options: PushLogOptions) {
    this.#options = options;
  }

  /** These resources have changed (`Kind/namespace/name`). */
  changed(keys: Iterable<string>): void {
    for (const key of keys) if (this.#changed.size < MAX_COUNTED) this.#changed.add(key);
  }

  /** A change is on its way to a proxy. */
  began(): void {
    this.#underWay++;
    if (this.#patient) return;
    this.#patient = true;
    this.#options.later(PATIENCE_MS, () => {
      this.#patient = false;
      if (this.#underWay === 0) return;
      // A stuck push is logged once.
      if (this.#changed.size > 0 || this.#done.size > 0) this.#write();
      this.#again();
    });
  }

  /**
   * The proxy has acknowledged it after so many ms from the first event; undefined: it needed nothing of it, or has
   * gone.
   */
  ended(connectionId: string, milliseconds: number | undefined): void {
    this.#underWay--;
    if (milliseconds !== undefined) {
      this.#done.add(connectionId);
      this.#longestMs = Math.max(this.#longestMs, milliseconds);
    }
    if (this.#underWay > 0 || this.#waiting) return;
    this.#waiting = true;
    this.#options.later(LEAST_MS, () => {
      this.#waiting = false;
      // While another is under way its end is waited for.
      if (this.#underWay === 0) this.#write();
    });
  }

  /** Looks again later, as `began` would. */
  #again(): void {
    this.#underWay--;
    this.began();
  }

  #write(): void {
    if (this.#done.size === 0 && this.#underWay === 0) {
      // What changed concerns no proxy.
      this.#changed.clear();
      return;
    }
    const proxies = `${this.#done.size} ${this.#done.size === 1 ? 'proxy' : 'proxies'}`;
    const took = `${(this.#longestMs / 1000).toFixed(2)} s`;
    if (this.#underWay === 0) this.#options.write(`pushed ${this.#what()} to ${proxies} in ${took}`);
    else this.#options.write(`pushing ${this.#what()}: ${proxies} acknowledged it, ${this.#underWay} not yet`);
    this.#changed.clear();
    this.#done.clear();
    this.#longestMs = 0;
  }

  #what(): string {
    if (this.#changed.size === 0) return 'what was changed before';
    const named = [...this.#changed].slice(0, NAMED).join(', ');
    const more = this.#changed.size - NAMED;
    const least = this.#changed.size >= MAX_COUNTED ? 'at least ' : '';
    return more > 0 ? `${named} and ${least}${more} more` : named;
  }
}
