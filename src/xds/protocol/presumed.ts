/** Responses that count as accepted before the proxy has answered them. */
import type { Inflight } from './inflight.ts';

/** A proxy that answers none of so many responses gets no further one. */
const MAX = 100;

export class Presumed {
  readonly #responses = new Map<string, Inflight>();

  get empty(): boolean {
    return this.#responses.size === 0;
  }

  /** @returns false if there are too many */
  add(response: Inflight): boolean {
    if (this.#responses.size >= MAX) return false;
    this.#responses.set(response.nonce, response);
    return true;
  }

  /** The response with this nonce, which is answered now. */
  take(nonce: string): Inflight | undefined {
    const found = this.#responses.get(nonce);
    if (found !== undefined) this.#responses.delete(nonce);
    return found;
  }
}
