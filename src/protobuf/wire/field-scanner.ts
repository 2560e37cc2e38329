/** Reads the heads of fields of a message that has not arrived completely. */
import { LENGTH_DELIMITED, MAX_VARINT_BYTES, VarintDecoder } from './varint.ts';

/** The longest head (tag and length) of a length-delimited field. */
export const MAX_FIELD_HEAD_BYTES = 2 * MAX_VARINT_BYTES;

/** Reads heads of length-delimited fields. One object serves many reads, so that nothing is allocated. */
export class FieldScanner {
  /** Number of the field that was read last. */
  number = 0;
  /** Offset of the end of that field; it may lie beyond the bytes that have arrived. */
  end = 0;
  readonly #varint = new VarintDecoder();

  /**
   * Reads the head of the field at `start`. False when less than the head has arrived before `limit`, or the field is
   * of another wire type.
   */
  read(bytes: Uint8Array, start: number, limit: number): boolean {
    const varint = this.#varint;
    const afterTag = varint.read(bytes, start, limit);
    if (afterTag < 0 || varint.value % 8 !== LENGTH_DELIMITED) return false;
    this.number = Math.floor(varint.value / 8);
    const afterLength = varint.read(bytes, afterTag, limit);
    if (afterLength < 0) return false;
    this.end = afterLength + varint.value;
    return true;
  }
}
