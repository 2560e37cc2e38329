/**
 * The health of a source, logged when it changes: once when it becomes bad or is so for another reason, and once when
 * it is good again.
 */
import type { Log } from '../core/log.ts';
import type { SourceHealth } from './source.ts';

export class HealthLog {
  readonly #log: Pick<Log, 'warn' | 'info'>;
  #health: SourceHealth = { ok: true };

  constructor(log: Pick<Log, 'warn' | 'info'>) {
    this.#log = log;
  }

  get current(): SourceHealth {
    return this.#health;
  }

  /** @param consequence what follows from it, for the log */
  bad(reason: string, consequence: string): void {
    if (!this.#health.ok && this.#health.reason === reason) return;
    this.#health = { ok: false, reason };
    this.#log.warn(`${reason}; ${consequence}`);
  }

  good(message: string): void {
    if (this.#health.ok) return;
    this.#health = { ok: true };
    this.#log.info(message);
  }
}
