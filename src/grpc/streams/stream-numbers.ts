/**
 * Which streams a connection has had. Their numbers grow, so that of one that is not open the number tells whether it
 * is still to come (idle) or over. Source: RFC 9113 sections 5.1 and 5.1.1
 */
import { ERROR, Http2Error } from '../frames/frames.ts';

/** Streams that we reset: what the client had sent before it learned of that is passed over. */
const MAX_REMEMBERED_RESETS = 128;

export class StreamNumbers {
  readonly #reset = new Set<number>();
  #last = 0;

  /** The highest there was. */
  get last(): number {
    return this.#last;
  }

  /**
   * Headers have come for a stream that is not open. False when they are to be passed over; throws Http2Error for a
   * number that cannot be.
   */
  begin(id: number): boolean {
    if (id % 2 === 0) throw new Http2Error(ERROR.protocol, 'a stream with an even number');
    if (id > this.#last) {
      this.#last = id;
      return true;
    }
    if (this.#reset.has(id)) return false;
    throw new Http2Error(ERROR.streamClosed, 'HEADERS on a stream that is closed');
  }

  /** Throws Http2Error for a stream that is still to come. `what`: the frame that speaks of it. */
  checkNotIdle(id: number, what: string): void {
    if (id === 0) throw new Http2Error(ERROR.protocol, `${what} on no stream`);
    if (id % 2 === 0 || id > this.#last) throw new Http2Error(ERROR.protocol, `${what} on a stream that is idle`);
  }

  /** We have reset the stream. */
  reset(id: number): void {
    this.#reset.add(id);
    if (this.#reset.size > MAX_REMEMBERED_RESETS) this.#reset.delete(this.#reset.values().next().value ?? 0);
  }

  wasReset(id: number): boolean {
    return this.#reset.has(id);
  }
}
