/**
 * The events of a source that its sink could not apply, the newest by id, so that their number is at most that of the
 * source's documents. They are sent again before later events: the documents that they are about do not change by
 * themselves, and a policy among them would stay missing.
 */
import { eventId, type ResourceEvent } from '../resources/index.ts';

/** Events that are sent to the sink. Several may be on their way at the same time, in the order in which they began. */
export interface Sending {
  readonly events: readonly ResourceEvent[];
  /** The sink has applied them. */
  applied(): void;
  /** The sink could not apply some: they are sent again, but for those of which a newer one was sent. */
  failed(): void;
}

export class UnappliedEvents {
  readonly #events = new Map<string, ResourceEvent>();
  /** What an id was sent with last, while that is on its way. */
  readonly #latest = new Map<string, Sending>();

  get size(): number {
    return this.#events.size;
  }

  /** Sends the events that were not applied, but for those of an id that is sent now or on its way, then these. */
  send(newer: readonly ResourceEvent[]): Sending {
    const ids = new Set(newer.map(eventId));
    const older = [...this.#events].filter(([id]) => !ids.has(id) && !this.#latest.has(id)).map(([, event]) => event);
    const sending: Sending = {
      events: older.length === 0 ? newer : [...older, ...newer],
      applied: () => {
        for (const [id] of this.#settled(sending)) this.#events.delete(id);
      },
      failed: () => {
        for (const [id, event] of this.#settled(sending)) {
          // The order of the last ones counts.
          this.#events.delete(id);
          this.#events.set(id, event);
        }
      },
    };
    for (const event of sending.events) this.#latest.set(eventId(event), sending);
    return sending;
  }

  /** Events that settle what becomes of their ids: the last ones of these, of which no newer one was sent. */
  #settled(sending: Sending): ReadonlyMap<string, ResourceEvent> {
    const settled = new Map<string, ResourceEvent>();
    for (const event of sending.events) {
      const id = eventId(event);
      if (this.#latest.get(id) === sending) settled.set(id, event);
    }
    for (const id of settled.keys()) this.#latest.delete(id);
    return settled;
  }

  /** Up to three of them, for a message. */
  named(): string {
    const names = [...this.#events.keys()];
    const more = names.length > 3 ? ` and ${names.length - 3} more` : '';
    return names.slice(0, 3).join(', ') + more;
  }
}
