/**
 * The identifiers of a connection's streams. They only grow, so the identifier of a stream that is not open shows
 * whether it is idle or closed. Source: RFC 9113 sections 5.1 and 5.1.1
 */
import { ERROR, Http2Error } from '../frames/frames.ts';

/** Maximum number of remembered resets: frames that the client sent before it received a reset are ignored. */
const MAX_REMEMBERED_RESETS = 128;

export class StreamNumbers {
  readonly #reset = new Set<number>();
  #last = 0;

  /** The highest number so far. */
  get last(): number {
    return this.#last;
  }

  /**
   * Headers have arrived for a stream that is not open. False when they have to be ignored. Throws Http2Error for an
   * invalid number.
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

  /**
   * Throws Http2Error for an idle stream.
   * @param what the frame that names it
   */
  checkNotIdle(id: number, what: string): void {
    if (id === 0) throw new Http2Error(ERROR.protocol, `${what} on stream 0`);
    if (id % 2 === 0 || id > this.#last) throw new Http2Error(ERROR.protocol, `${what} on a stream that is idle`);
  }

  /** The server has reset the stream. */
  reset(id: number): void {
    this.#reset.add(id);
    if (this.#reset.size > MAX_REMEMBERED_RESETS) this.#reset.delete(this.#reset.values().next().value ?? 0);
  }

  wasReset(id: number): boolean {
    return this.#reset.has(id);
  }
}
