/**
 * Bytes that come in pieces and are kept together. A client chooses how small its pieces are, and a piece that is kept
 * as an object of its own costs a hundred times its byte: here pieces cost at most twice their bytes, however small
 * they are.
 */
const NOTHING = Buffer.alloc(0);

export class ByteAccumulator {
  #bytes: Buffer = NOTHING;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Keeps a copy of the piece. */
  add(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (length > this.#bytes.length) {
      const grown = Buffer.allocUnsafe(this.#length === 0 ? length : Math.max(length, 2 * this.#bytes.length));
      this.#bytes.copy(grown, 0, 0, this.#length);
      this.#bytes = grown;
    }
    piece.copy(this.#bytes, this.#length);
    this.#length = length;
  }

  /** What has been gathered; valid until the next piece is added. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** What has been gathered, of which nothing is kept here. */
  take(): Buffer {
    const bytes = this.view();
    this.#bytes = NOTHING;
    this.#length = 0;
    return bytes;
  }
}
