/**
 * The log of what cannot be read from an API server. When the server fails, all kinds fail at once, so failures with
 * the same reason are collected for a moment and logged as one line, and so are recoveries.
 */
import type { Clock, Timer } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';

const GATHER_MS = 1000;
/** Maximum number of kinds that a line names. */
const NAMED = 6;

export class FailureReport {
  readonly #log: Pick<Log, 'warn' | 'info'>;
  readonly #clock: Clock;
  readonly #server: string;
  /** The reason that was logged last, by the name of what fails. */
  readonly #failing = new Map<string, string>();
  /** What is to be logged, by name: the reason, or undefined for a recovery. */
  #news = new Map<string, string | undefined>();
  #timer: Timer | undefined;
  /** Since when anything fails, monotonic ms. */
  #since: number | undefined;

  constructor(log: Pick<Log, 'warn' | 'info'>, clock: Clock, server: string) {
    this.#log = log;
    this.#clock = clock;
    this.#server = server;
  }

  /** @param reason what failed and why, and the consequence, in one line */
  failed(name: string, reason: string): void {
    this.#note(name, reason);
  }

  recovered(name: string): void {
    this.#note(name, undefined);
  }

  /** Forgets the failures of a name that no longer exists. */
  forget(name: string): void {
    this.#failing.delete(name);
    this.#news.delete(name);
    this.#noteTime();
  }

  /** A line for messages while anything fails. */
  get reason(): string | undefined {
    for (const [name, reason] of this.#news) if (reason !== undefined) return `${name}: ${reason}`;
    for (const [name, reason] of this.#failing) if (!this.#news.has(name)) return `${name}: ${reason}`;
    return undefined;
  }

  /** Since when anything fails, monotonic ms; undefined while nothing does. */
  get since(): number | undefined {
    return this.#since;
  }

  close(): void {
    this.#timer?.cancel();
  }

  #note(name: string, reason: string | undefined): void {
    if (this.#failing.get(name) === reason) this.#news.delete(name);
    else this.#news.set(name, reason);
    this.#noteTime();
    if (this.#news.size === 0 || this.#timer !== undefined) return;
    this.#timer = this.#clock.setTimer(GATHER_MS, () => {
      this.#timer = undefined;
      this.#write();
    });
  }

  #noteTime(): void {
    this.#since = this.reason === undefined ? undefined : (this.#since ?? this.#clock.now());
  }

  #write(): void {
    const news = this.#news;
    this.#news = new Map();
    const byReason = Map.groupBy(news.keys(), (name) => news.get(name));
    for (const [reason, names] of byReason) {
      const shown = names.length > NAMED ? [...names.slice(0, NAMED), `${names.length - NAMED} more`] : names;
      const text = shown.join(', ');
      if (reason === undefined) this.#log.info(`${text}: can be read again from the API server ${this.#server}`);
      else this.#log.warn(`${text}: ${reason}`);
    }
    for (const [name, reason] of news) {
      if (reason === undefined) this.#failing.delete(name);
      else this.#failing.set(name, reason);
    }
  }
}
