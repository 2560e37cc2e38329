/**
 * The primitives of the protobuf wire format: varints, tags and heads of length-delimited fields. A varint has seven
 * bits of the number in each byte, lowest first; if the eighth bit is set, another byte follows. A tag is the varint
 * `field number * 8 + wire type`. Source: https://protobuf.dev/programming-guides/encoding/
 */

/** Wire types. Groups (3, 4) are obsolete, and no message that is read here has one. */
export const VARINT = 0;
export const FIXED64 = 1;
export const LENGTH_DELIMITED = 2;
export const FIXED32 = 5;

/** The length of the longest varint, of 64 bits. */
export const MAX_VARINT_BYTES = 10;

/** Above this, bit operations no longer work on a number. */
const MAX_INT32 = 0x7fffffff;

/** The number of bytes that `value` takes as a varint. */
export function varintLength(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x200000) return 3;
  let length = 4;
  for (let rest = Math.floor(value / 0x200000); rest > 0x7f; rest = Math.floor(rest / 128)) length++;
  return length;
}

/** Writes an unsigned integer of up to 53 bits at `offset`; returns the offset after it. */
export function writeVarint(target: Uint8Array, offset: number, value: number): number {
  let at = offset;
  let rest = value;
  for (; rest > MAX_INT32; rest = Math.floor(rest / 128)) target[at++] = (rest % 128) | 0x80;
  for (; rest > 0x7f; rest >>>= 7) target[at++] = (rest & 0x7f) | 0x80;
  target[at++] = rest;
  return at;
}

/** The number of bytes that a length-delimited field with `length` bytes of content takes, with its head. */
export function delimitedLength(field: number, length: number): number {
  return varintLength(field * 8) + varintLength(length) + length;
}

/** Writes the tag and the length of a length-delimited field at `offset`; returns the offset of its content. */
export function writeDelimitedHead(target: Uint8Array, offset: number, field: number, length: number): number {
  return writeVarint(target, writeVarint(target, offset, field * 8 + LENGTH_DELIMITED), length);
}

/** Reads varints without allocating: `read` leaves the number in `value`. */
export class VarintDecoder {
  /** The last number read. Beyond 2^53 it is not exact. */
  value = 0;

  /**
   * Reads the varint at `start`. Returns the offset after it, or -1 when it does not end before `limit` or has more
   * than 10 bytes.
   */
  read(bytes: Uint8Array, start: number, limit: number): number {
    const first = bytes[start] ?? 0;
    if (start >= limit) return -1;
    if (first < 0x80) {
      // Most tags and lengths have one byte.
      this.value = first;
      return start + 1;
    }
    let value = first & 0x7f;
    let scale = 128;
    const last = Math.min(limit, start + MAX_VARINT_BYTES);
    for (let at = start + 1; at < last; at++) {
      const byte = bytes[at] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        this.value = value;
        return at + 1;
      }
      scale *= 128;
    }
    return -1;
  }
}
