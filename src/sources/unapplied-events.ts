/**
 * The events of a source that its sink could not apply, the newest by id, so that their number is at most that of the
 * source's documents. They are sent again before later events: the documents that they are about do not change by
 * themselves, and a policy among them would stay missing.
 */
import { eventId, type ResourceEvent } from '../resources/index.ts';

export class UnappliedEvents {
  readonly #events = new Map<string, ResourceEvent>();

  get size(): number {
    return this.#events.size;
  }

  /** The events to send: those that were not applied, but for newer ones of the same id, then these. */
  with(events: readonly ResourceEvent[]): readonly ResourceEvent[] {
    if (this.#events.size === 0) return events;
    const newer = new Set(events.map(eventId));
    return [...[...this.#events.values()].filter((event) => !newer.has(eventId(event))), ...events];
  }

  /** The sink could not apply some of these. */
  keep(events: readonly ResourceEvent[]): void {
    for (const event of events) {
      // The order of the last ones counts.
      this.#events.delete(eventId(event));
      this.#events.set(eventId(event), event);
    }
  }

  /** The sink has applied these. */
  applied(events: readonly ResourceEvent[]): void {
    if (this.#events.size === 0) return;
    for (const event of events) if (this.#events.get(eventId(event)) === event) this.#events.delete(eventId(event));
  }

  /** Up to three of them, for a message. */
  named(): string {
    const names = [...this.#events.keys()];
    const more = names.length > 3 ? ` and ${names.length - 3} more` : '';
    return names.slice(0, 3).join(', ') + more;
  }
}
