/** The newest errors of a part of the harness that retries, for its report when a test fails. */
import { reportFailures } from '../diagnostics.ts';
import type { Owner } from '../owner.ts';

interface Entry {
  readonly subject: string;
  readonly message: string;
  count: number;
  last: Date;
}

/** Errors that are kept. */
const LIMIT = 50;

export class RecentErrors {
  /** The newest last. */
  readonly #entries = new Map<string, Entry>();

  note(subject: string, message: string): void {
    const key = `${subject}\n${message}`;
    const count = (this.#entries.get(key)?.count ?? 0) + 1;
    this.#entries.delete(key);
    this.#entries.set(key, { subject, message, count, last: new Date() });
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > LIMIT && oldest !== undefined) this.#entries.delete(oldest);
  }

  /** One line for each. */
  lines(): string[] {
    return [...this.#entries.values()].map(({ subject, message, count, last }) => {
      const times = count === 1 ? '' : ` (${count} times)`;
      return `${last.toISOString().slice(11, 23)} ${subject}: ${message}${times}`;
    });
  }
}

/** Errors that are printed when a test fails. */
export function reportedErrors(owner: Owner, part: string): RecentErrors {
  const errors = new RecentErrors();
  reportFailures(owner, () => {
    const lines = errors.lines();
    return lines.length === 0 ? '' : [`--- errors of the ${part} ---`, ...lines, ''].join('\n');
  });
  return errors;
}
