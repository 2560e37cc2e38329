/** Writes small messages field by field, without generated code. */
import { delimitedLength, VARINT, varintLength, writeDelimitedHead, writeVarint } from './varint.ts';

/** A field to write: a string, an unsigned integer of up to 53 bits, or bytes (such as an encoded message). */
export type FieldToWrite = readonly [field: number, value: string | number | Uint8Array];

/**
 * Encodes fields in the order given, after `reserve` free bytes (for a frame prefix). A repeated field is given once
 * for each value. Empty values are written as well: the caller omits fields with default values.
 */
export function encodeFields(fields: readonly FieldToWrite[], reserve = 0): Buffer {
  let size = reserve;
  for (const [field, value] of fields)
    size +=
      typeof value === 'number' ? varintLength(field * 8) + varintLength(value) : delimitedLength(field, sizeOf(value));
  const out = Buffer.allocUnsafe(size);
  let at = reserve;
  for (const [field, value] of fields) {
    if (typeof value === 'number') {
      at = writeVarint(out, writeVarint(out, at, field * 8 + VARINT), value);
      continue;
    }
    at = writeDelimitedHead(out, at, field, sizeOf(value));
    if (typeof value === 'string') at += out.write(value, at);
    else {
      out.set(value, at);
      at += value.length;
    }
  }
  return out;
}

function sizeOf(value: string | Uint8Array): number {
  return typeof value === 'string' ? Buffer.byteLength(value) : value.length;
}
