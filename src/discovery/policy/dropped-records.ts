/** Counts the records of access logs that are dropped, and logs the numbers. */

/** A window begins with its first dropped record; its line is written at its end, ms. */
const WINDOW_MS = 10_000;

export interface DroppedRecordsOptions {
  readonly write: (message: string) => void;
  /** Runs once after `ms`. */
  readonly later: (ms: number, run: () => void) => void;
}

export class DroppedRecords {
  readonly #options: DroppedRecordsOptions;
  #messages = 0;
  #entries = 0;
  #latest = '';

  constructor(options: DroppedRecordsOptions) {
    this.#options = options;
  }

  /** A whole message of this caller, because too many of its messages are in progress. */
  message(caller: string): void {
    this.#begin();
    this.#messages++;
    this.#latest = caller;
  }

  /** Entries beyond the limit of a message. */
  entries(count: number): void {
    if (count === 0) return;
    this.#begin();
    this.#entries += count;
  }

  #begin(): void {
    if (this.#messages + this.#entries === 0) this.#options.later(WINDOW_MS, () => this.#end());
  }

  #end(): void {
    const parts = [
      ...(this.#messages === 0
        ? []
        : [`${this.#messages} messages that came faster than handlers take them, the latest of ${this.#latest}`]),
      ...(this.#entries === 0 ? [] : [`${this.#entries} entries beyond the limit of a message`]),
    ];
    [this.#messages, this.#entries, this.#latest] = [0, 0, ''];
    this.#options.write(`records were dropped in the last ${WINDOW_MS / 1000} s: ${parts.join('; ')}`);
  }
}
