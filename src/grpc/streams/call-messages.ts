/**
 * Reads the messages of a call one by one: in memory is one message at a time, and however small the pieces are in
 * which its client sends it, at most twice its length.
 */
import { ByteAccumulator } from '../buffers/byte-accumulator.ts';
import { checkedLength, MESSAGE_PREFIX_BYTES } from '../messages.ts';

export class CallMessages {
  readonly #maxBytes: number;
  readonly #take: (message: Buffer) => void;
  readonly #gathered = new ByteAccumulator();

  /** @param take called with each message, whose bytes are its own */
  constructor(maxBytes: number, take: (message: Buffer) => void) {
    this.#maxBytes = maxBytes;
    this.#take = take;
  }

  /** Throws CtlError when a message is refused: nothing must be added after that. */
  add(piece: Buffer): void {
    let rest = piece;
    while (rest.length > 0) {
      const missing = this.#wanted() - this.#gathered.length;
      this.#gathered.add(rest.subarray(0, missing));
      rest = rest.subarray(missing);
      if (this.#gathered.length >= MESSAGE_PREFIX_BYTES && this.#gathered.length === this.#wanted())
        this.#take(this.#gathered.take().subarray(MESSAGE_PREFIX_BYTES));
    }
  }

  /** Bytes up to the end of the message, or of its prefix while that is incomplete. */
  #wanted(): number {
    if (this.#gathered.length < MESSAGE_PREFIX_BYTES) return MESSAGE_PREFIX_BYTES;
    return MESSAGE_PREFIX_BYTES + checkedLength(this.#gathered.view(), this.#maxBytes);
  }
}
