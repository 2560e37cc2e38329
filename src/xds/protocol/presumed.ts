/** Responses that count as accepted before the proxy has answered them. */
import type { EncodedResource } from '../../push/index.ts';
import type { Inflight } from './inflight.ts';

/** The last resource of each name that was sent; undefined if it was removed. */
export type SentResources = ReadonlyMap<string, EncodedResource | undefined>;
export const NOTHING_SENT: SentResources = new Map();

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

  /** What these responses have, and the one that was sent last. */
  sentWith(last: Inflight | undefined): SentResources {
    const sent = new Map<string, EncodedResource | undefined>();
    for (const { changed, removed } of [...this.#responses.values(), ...(last ? [last] : [])]) {
      for (const resource of changed.flat()) sent.set(resource.name, resource);
      for (const name of removed) sent.set(name, undefined);
    }
    return sent;
  }

  /** The response with this nonce, which is answered now. */
  take(nonce: string): Inflight | undefined {
    const found = this.#responses.get(nonce);
    if (found !== undefined) this.#responses.delete(nonce);
    return found;
  }
}
