/**
 * A protobuf writer from back to front. A nested message is finished before its length has to be written in front of
 * it, so that nothing is measured first or copied after: endpoints change often, and each change is encoded on the main
 * thread. Wire format: https://protobuf.dev/programming-guides/encoding/
 */

const VARINT = 0;
const LENGTH_DELIMITED = 2;

const text = new TextEncoder();

/** Write the last field first. */
export class BackwardWriter {
  #buffer: Uint8Array;
  /** The message written so far is `#buffer` from here to its end. */
  #start: number;

  constructor(capacity: number) {
    this.#buffer = new Uint8Array(capacity);
    this.#start = capacity;
  }

  /** What {@link message} needs to know where a nested message ends: call before writing its (last) field. */
  mark(): number {
    return this.#buffer.length - this.#start;
  }

  /** ConcurrencyLimiter what was written since `mark` into field `field`, a nested message. */
  message(field: number, mark: number): void {
    this.#varint(this.mark() - mark);
    this.#tag(field, LENGTH_DELIMITED);
  }

  string(field: number, value: string): void {
    const mark = this.mark();
    this.#text(value);
    this.message(field, mark);
  }

  /** An unsigned number of up to 32 bits. */
  uint32(field: number, value: number): void {
    this.#varint(value);
    this.#tag(field, VARINT);
  }

  /** What is encoded already: text, or whole fields. */
  bytes(encoded: Uint8Array): void {
    // First: making room may replace the buffer.
    const at = this.#reserve(encoded.length);
    this.#buffer.set(encoded, at);
  }

  finish(): Uint8Array {
    return this.#buffer.slice(this.#start);
  }

  #text(value: string): void {
    const at = this.#reserve(value.length);
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code > 0x7f) {
        this.#start += value.length;
        const bytes = text.encode(value);
        this.bytes(bytes);
        return;
      }
      this.#buffer[at + i] = code;
    }
  }

  #tag(field: number, wireType: number): void {
    this.#varint(field * 8 + wireType);
  }

  #varint(value: number): void {
    let length = 1;
    for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 128)) length++;
    let at = this.#reserve(length);
    let rest = value;
    for (; rest > 0x7f; rest = Math.floor(rest / 128)) this.#buffer[at++] = (rest % 128) + 128;
    this.#buffer[at] = rest;
  }

  /** Room for `length` bytes in front; returns where they begin. */
  #reserve(length: number): number {
    if (this.#start < length) {
      const used = this.mark();
      const grown = new Uint8Array(Math.max(this.#buffer.length * 2, used + length));
      grown.set(this.#buffer.subarray(this.#start), grown.length - used);
      this.#start = grown.length - used;
      this.#buffer = grown;
    }
    this.#start -= length;
    return this.#start;
  }
}
