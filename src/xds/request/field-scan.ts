/** Fields of a message of which the rest may not have come. */
import { MAX_VARINT_BYTES, WIRE_BYTES } from './wire.ts';

/** Most bytes before the content of a length-delimited field. */
export const MAX_FIELD_HEAD_BYTES = 2 * MAX_VARINT_BYTES;

/**
 * Looks at length-delimited fields in bytes of which the rest may not have come. One object for a walk, which allocates
 * nothing.
 */
export class FieldScan {
  /** Number of the field that was read, and where it ends: maybe behind what is there. */
  number = 0;
  end = 0;
  #value = 0;

  /**
   * Reads the beginning of the field at `start`. False when too little of it is there before `limit`, or it is of
   * another kind.
   */
  read(bytes: Uint8Array, start: number, limit: number): boolean {
    const behindTag = this.#varint(bytes, start, limit);
    if (behindTag < 0 || this.#value % 8 !== WIRE_BYTES) return false;
    this.number = Math.floor(this.#value / 8);
    const behindLength = this.#varint(bytes, behindTag, limit);
    if (behindLength < 0) return false;
    this.end = behindLength + this.#value;
    return true;
  }

  /** Offset behind the number at `start`, or -1 when it does not end before `limit`, or is none. */
  #varint(bytes: Uint8Array, start: number, limit: number): number {
    let value = 0;
    let scale = 1;
    const last = Math.min(limit, start + MAX_VARINT_BYTES);
    for (let at = start; at < last; at++) {
      const byte = bytes[at] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        this.#value = value;
        return at + 1;
      }
      scale *= 128;
    }
    return -1;
  }
}
