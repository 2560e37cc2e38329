/** The last log lines of the program, for a page that follows them. */
import type { RecentEvent } from './shapes.ts';

/** The number of lines that are kept, and the characters of each. */
const KEPT = 500;
const MAX_TEXT = 1000;

export class EventRing {
  readonly #events: RecentEvent[] = [];
  #number = 0;

  note(event: Omit<RecentEvent, 'number'>): void {
    const number = ++this.#number;
    this.#events[number % KEPT] = { ...event, number, message: event.message.slice(0, MAX_TEXT) };
  }

  /** The newest first: those after `since`, the number of an earlier one. */
  recent(since = 0): RecentEvent[] {
    const count = Math.max(0, Math.min(this.#number - since, this.#events.length, KEPT));
    return Array.from({ length: count }, (_, index) => this.#events[(this.#number - index) % KEPT]).filter(
      (event) => event !== undefined,
    );
  }
}
