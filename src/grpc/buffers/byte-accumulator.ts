/**
 * Collects bytes that arrive in pieces. The client chooses the size of the pieces, and a piece of one byte that is kept
 * as an object takes a hundred bytes. Here the memory is at most twice the number of bytes, however small the pieces
 * are.
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

  /** The collected bytes; valid until the next piece is added. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** The collected bytes; the accumulator is empty afterwards. */
  take(): Buffer {
    const bytes = this.view();
    this.#bytes = NOTHING;
    this.#length = 0;
    return bytes;
  }
}
