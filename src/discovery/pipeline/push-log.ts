/**
 * Logs each push that changes the configuration of a proxy: the changed resources, the number of proxies, and the time
 * until the last of them has acknowledged it. Changes within a short time share one line.
 */

/** The shortest time between two lines, ms. */
const MIN_INTERVAL_MS = 1000;
/** The time, ms, after which a line reports the progress of a push. */
const PROGRESS_AFTER_MS = 10_000;
/** The number of changed resources that a line names. */
const NAMED = 3;
/** The largest number of changed resources that are counted. */
const MAX_COUNTED = 10_000;

export interface PushLogOptions {
  readonly write: (line: string) => void;
  readonly later: (ms: number, run: () => void) => void;
}

export class PushLog {
  readonly #options: PushLogOptions;
  /** Resources that changed since the last line with names. */
  readonly #changed = new Set<string>();
  /** Pushes that proxies have not acknowledged. */
  #underWay = 0;
  /** Since the last line: proxies that have acknowledged a change, and the longest time, ms. */
  readonly #done = new Set<string>();
  #longestMs = 0;
  #lineTimer = false;
  #progressTimer = false;

  constructor(options: PushLogOptions) {
    this.#options = options;
  }

  /** These resources have changed (`Kind/namespace/name`). */
  changed(keys: Iterable<string>): void {
    for (const key of keys) if (this.#changed.size < MAX_COUNTED) this.#changed.add(key);
  }

  /** A push to a proxy begins. */
  began(): void {
    this.#underWay++;
    if (this.#progressTimer) return;
    this.#progressTimer = true;
    this.#options.later(PROGRESS_AFTER_MS, () => {
      this.#progressTimer = false;
      if (this.#underWay === 0) return;
      // A slow push is logged once.
      if (this.#changed.size > 0 || this.#done.size > 0) this.#write();
      this.#again();
    });
  }

  /**
   * The proxy has acknowledged the push, this many ms after the first event; undefined if it needed no change, or its
   * connection was closed.
   */
  ended(connectionId: string, milliseconds: number | undefined): void {
    this.#underWay--;
    if (milliseconds !== undefined) {
      this.#done.add(connectionId);
      this.#longestMs = Math.max(this.#longestMs, milliseconds);
    }
    if (this.#underWay > 0 || this.#lineTimer) return;
    this.#lineTimer = true;
    this.#options.later(MIN_INTERVAL_MS, () => {
      this.#lineTimer = false;
      // Otherwise the end of the other pushes writes the line.
      if (this.#underWay === 0) this.#write();
    });
  }

  /** Checks again later. */
  #again(): void {
    this.#underWay--;
    this.began();
  }

  #write(): void {
    if (this.#done.size === 0 && this.#underWay === 0) {
      // The changes affect no proxy.
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
    if (this.#changed.size === 0) return 'earlier changes';
    const named = [...this.#changed].slice(0, NAMED).join(', ');
    const more = this.#changed.size - NAMED;
    const least = this.#changed.size >= MAX_COUNTED ? 'at least ' : '';
    return more > 0 ? `${named} and ${least}${more} more` : named;
  }
}
