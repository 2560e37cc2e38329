/**
 * Encodes header blocks, without state: responses have a few short fields per call, and a table would
 * cost each connection more memory than it saves bytes. For the same reason there is no Huffman code. Source: RFC 7541.
 */
import { STATIC_FIELDS } from './static-table.ts';
import type { HeaderField } from './types.ts';

/** The representations used (RFC 7541, 6.1 and 6.2.2), and the number of integer bits in their first byte. */
const INDEXED = 0x80;
const INDEXED_BITS = 7;
const LITERAL = 0x00;
const LITERAL_BITS = 4;
const PLAIN_STRING = 0x00;
const STRING_BITS = 7;

/** Three integers of a field: its index, and the lengths of its name and value. Each has at most six bytes. */
const MAX_FIELD_OVERHEAD = 18;

interface StaticName {
  /** Index of the first field with the name. */
  readonly index: number;
  readonly byValue: Map<string, number>;
}

const STATIC_NAMES = new Map<string, StaticName>();
for (const [position, { name, value }] of STATIC_FIELDS.entries()) {
  const index = position + 1;
  const known = STATIC_NAMES.get(name) ?? { index, byValue: new Map<string, number>() };
  STATIC_NAMES.set(name, known);
  known.byValue.set(value, index);
}

function writeInteger(out: Buffer, at: number, form: number, bits: number, value: number): number {
  const mask = (1 << bits) - 1;
  if (value < mask) {
    out[at] = form | value;
    return at + 1;
  }
  out[at] = form | mask;
  let end = at + 1;
  let rest = value - mask;
  for (; rest >= 0x80; rest >>>= 7) out[end++] = (rest & 0x7f) | 0x80;
  out[end] = rest;
  return end + 1;
}

function writeString(out: Buffer, at: number, text: string): number {
  const start = writeInteger(out, at, PLAIN_STRING, STRING_BITS, text.length);
  return start + out.write(text, start, 'latin1');
}

function writeField(out: Buffer, at: number, { name, value }: HeaderField): number {
  const known = STATIC_NAMES.get(name);
  const whole = known?.byValue.get(value);
  if (whole !== undefined) return writeInteger(out, at, INDEXED, INDEXED_BITS, whole);
  const start = writeInteger(out, at, LITERAL, LITERAL_BITS, known?.index ?? 0);
  return writeString(out, known === undefined ? writeString(out, start, name) : start, value);
}

/**
 * Encodes a list as a block that does not depend on earlier ones. Strings have a byte per character; strings that are
 * not latin1 have to be encoded before.
 */
export function encodeHeaders(fields: readonly HeaderField[]): Buffer {
  let size = 0;
  for (const { name, value } of fields) size += name.length + value.length + MAX_FIELD_OVERHEAD;
  const out = Buffer.allocUnsafe(size);
  let end = 0;
  for (const field of fields) end = writeField(out, end, field);
  return out.subarray(0, end);
}
