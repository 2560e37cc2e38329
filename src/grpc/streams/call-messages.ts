/**
 * Reads the messages of a call one by one: in memory is one message at a time, and however small the pieces are in
 * which its client sends it, at most twice its length. Messages that are not admitted are skipped without being kept.
 */
import { ByteAccumulator } from '../buffers/byte-accumulator.ts';
import { checkedLength, MESSAGE_PREFIX_BYTES } from '../messages.ts';

export class CallMessages {
  readonly #maxBytes: number;
  readonly #take: (message: Buffer) => void;
  readonly #admits: (bytes: number) => boolean;
  readonly #gathered = new ByteAccumulator();
  /** Bytes of a message that was not admitted, which are still to come. */
  #skipped = 0;

  /**
   * @param take called with each message, whose bytes are its own
   * @param admits called with the length of each message before its bytes are kept; false: it is skipped
   */
  constructor(maxBytes: number, take: (message: Buffer) => void, admits: (bytes: number) => boolean = () => true) {
    this.#maxBytes = maxBytes;
    this.#take = take;
    this.#admits = admits;
  }

  /** Throws CtlError when a message is refused: nothing must be added after that. */
  add(piece: Buffer): void {
    let rest = piece;
    while (rest.length > 0) {
      const missing = this.#skipped > 0 ? this.#skipped : this.#wanted() - this.#gathered.length;
      const part = rest.subarray(0, missing);
      rest = rest.subarray(missing);
      if (this.#skipped > 0) this.#skipped -= part.length;
      else this.#gather(part);
    }
  }

  #gather(part: Buffer): void {
    this.#gathered.add(part);
    const { length } = this.#gathered;
    if (length < MESSAGE_PREFIX_BYTES) return;
    const wanted = this.#wanted();
    // A part ends with the prefix.
    if (length === MESSAGE_PREFIX_BYTES && !this.#admits(wanted - MESSAGE_PREFIX_BYTES)) {
      this.#gathered.take();
      this.#skipped = wanted - MESSAGE_PREFIX_BYTES;
    } else if (length === wanted) this.#take(this.#gathered.take().subarray(MESSAGE_PREFIX_BYTES));
  }

  /** Bytes up to the end of the message, or of its prefix while that is incomplete. */
  #wanted(): number {
    if (this.#gathered.length < MESSAGE_PREFIX_BYTES) return MESSAGE_PREFIX_BYTES;
    return MESSAGE_PREFIX_BYTES + checkedLength(this.#gathered.view(), this.#maxBytes);
  }
}
