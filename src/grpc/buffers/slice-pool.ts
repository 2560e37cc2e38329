/**
 * Buffers for slices on their way to encrypted sockets. What is encrypted has to lie side by side: it is put together
 * here once, in buffers that go round, and not by the TLS layer in a new one each time.
 */

/** Kept while nobody needs them: as many as pushes are under way by default. */
const MAX_KEPT = 100;

export class SlicePool {
  readonly #bytes: number;
  readonly #free: Buffer[] = [];

  /** @param bytes of each */
  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(this.#bytes);
  }

  /** For a buffer that nothing reads any more. */
  give(slice: Buffer): void {
    if (this.#free.length < MAX_KEPT) this.#free.push(slice);
  }
}
