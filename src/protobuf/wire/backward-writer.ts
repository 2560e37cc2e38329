/**
 * Writes a protobuf message from its end to its beginning. A nested message is complete before its length is written in
 * front of it, so that nothing is measured first or copied afterwards: endpoints change often, and each change is
 * encoded on the main thread.
 */
import { LENGTH_DELIMITED, VARINT, varintLength, writeVarint } from './varint.ts';

const encoder = new TextEncoder();

/** Fields are written last first. */
export class BackwardWriter {
  #buffer: Uint8Array;
  /** The message written so far is `#buffer` from here to its end. */
  #start: number;

  constructor(capacity: number) {
    this.#buffer = new Uint8Array(capacity);
    this.#start = capacity;
  }

  /** The end of a nested message, for {@link message}: call it before the message's (last) field is written. */
  mark(): number {
    return this.#buffer.length - this.#start;
  }

  /** Turns what was written since `mark` into field `field`, a nested message. */
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

  /** Bytes that are encoded already: a string, or whole fields. */
  bytes(encoded: Uint8Array): void {
    // In this order: reserving may replace the buffer.
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
        this.bytes(encoder.encode(value));
        return;
      }
      this.#buffer[at + i] = code;
    }
  }

  #tag(field: number, wireType: number): void {
    this.#varint(field * 8 + wireType);
  }

  #varint(value: number): void {
    const at = this.#reserve(varintLength(value));
    // Most tags and lengths have one byte.
    if (value < 0x80) this.#buffer[at] = value;
    else writeVarint(this.#buffer, at, value);
  }

  /** Reserves `length` bytes in front of the message; returns the offset of the first. */
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
