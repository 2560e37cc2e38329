/**
 * Logs the health of a source when it changes: once when it becomes bad or the reason changes, and once when it is good
 * again.
 */
import type { Log } from '../core/log.ts';
import type { SourceHealth } from './source.ts';

export class HealthLog {
  readonly #log: Pick<Log, 'warn' | 'info'>;
  readonly #now: () => number;
  #health: SourceHealth = { ok: true };

  /** @param now monotonic ms */
  constructor(log: Pick<Log, 'warn' | 'info'>, now: () => number) {
    this.#log = log;
    this.#now = now;
  }

  get current(): SourceHealth {
    return this.#health;
  }

  /**
   * @param consequence what this means for the operator, logged with the reason
   */
  bad(reason: string, consequence: string): void {
    if (!this.#health.ok && this.#health.reason === reason) return;
    this.#health = { ok: false, reason, since: this.#health.ok ? this.#now() : (this.#health.since ?? this.#now()) };
    this.#log.warn(`${reason}; ${consequence}`);
  }

  good(message: string): void {
    if (this.#health.ok) return;
    this.#health = { ok: true };
    this.#log.info(message);
  }
}
