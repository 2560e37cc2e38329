/** Assembles the length-prefixed messages of one stream, where few and large messages are expected. */
import { checkedLength, MESSAGE_PREFIX_BYTES } from '../messages.ts';

export class MessageReader {
  readonly #maxBytes: number;
  readonly #message: (bytes: Buffer) => void;
  #chunks: Buffer[] = [];
  #held = 0;
  /** Bytes of the message with its prefix; undefined until the prefix is complete. */
  #needed: number | undefined;

  constructor(maxBytes: number, message: (bytes: Buffer) => void) {
    this.#maxBytes = maxBytes;
    this.#message = message;
  }

  /** Throws CtlError for a message that is too large or compressed, and what the listener throws. */
  take(bytes: Buffer): void {
    this.#chunks.push(bytes);
    this.#held += bytes.length;
    while (this.#held >= (this.#needed ?? MESSAGE_PREFIX_BYTES)) {
      const all = this.#chunks.length === 1 ? this.#chunks[0] : undefined;
      const joined = all ?? Buffer.concat(this.#chunks, this.#held);
      this.#needed ??= MESSAGE_PREFIX_BYTES + checkedLength(joined, this.#maxBytes);
      const { length } = joined;
      if (length < this.#needed) {
        this.#chunks = [joined];
        return;
      }
      const message = joined.subarray(MESSAGE_PREFIX_BYTES, this.#needed);
      this.#chunks = [joined.subarray(this.#needed)];
      this.#held = length - this.#needed;
      this.#needed = undefined;
      this.#message(message);
    }
  }
}
