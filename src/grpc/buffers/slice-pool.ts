/**
 * Reusable buffers for slices that are written to encrypted sockets. Encryption needs contiguous bytes: they are copied
 * here once into a pooled buffer, and not by the TLS layer into a new one each time.
 */

/** The maximum number of unused buffers: the default number of concurrent pushes. */
const MAX_KEPT = 100;

export class SlicePool {
  readonly #bytes: number;
  readonly #free: Buffer[] = [];

  /** @param bytes size of each buffer */
  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(this.#bytes);
  }

  /** Returns a buffer that is no longer read. */
  give(slice: Buffer): void {
    if (this.#free.length < MAX_KEPT) this.#free.push(slice);
  }
}
