/**
 * The protobuf wire format (https://protobuf.dev/programming-guides/encoding/), as much of it as a dozen small messages
 * need: loading a library or generated code for them would cost an agent more memory than everything else it does with
 * certificates.
 */
import { CtlError } from '../../core/errors.ts';

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

/** Bytes of the longest varint, of 64 bits. */
const MAX_VARINT = 10;

/**
 * A field that is read: a number for varints, bytes for what has a length. Fixed-width fields are skipped, no message
 * here has one.
 */
export interface WireField {
  readonly field: number;
  readonly value: number | Uint8Array;
}

/** A field to write; undefined, 0 and empty ones are left out, as proto3 does. */
export type Part = readonly [field: number, value: string | number | Uint8Array | undefined];

/** One message. A field that repeats stands once for each of its values. */
export function message(parts: readonly Part[]): Buffer {
  const chunks: Uint8Array[] = [];
  for (const [field, value] of parts) {
    if (value === undefined || value === 0 || value === '') continue;
    if (typeof value === 'number') {
      chunks.push(varint(field * 8 + VARINT), varint(value));
      continue;
    }
    const bytes = typeof value === 'string' ? Buffer.from(value) : value;
    chunks.push(varint(field * 8 + LENGTH), varint(bytes.length), bytes);
  }
  return Buffer.concat(chunks);
}

/** The fields of a message, in order. Throws CtlError invalid_argument for what is no protobuf. */
export function fields(bytes: Uint8Array): WireField[] {
  const found: WireField[] = [];
  let at = 0;
  const read = (): number => {
    // Beyond 2^53 a number is no longer exact; no field that is looked at is ever as large.
    let value = 0;
    for (let count = 0, factor = 1; count < MAX_VARINT; count++, factor *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw malformed();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    throw malformed();
  };
  const take = (length: number): Uint8Array => {
    if (length > bytes.length - at) throw malformed();
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const tag = read();
    const field = Math.floor(tag / 8);
    switch (tag % 8) {
      case VARINT:
        found.push({ field, value: read() });
        break;
      case LENGTH:
        found.push({ field, value: take(read()) });
        break;
      case FIXED64:
        take(8);
        break;
      case FIXED32:
        take(4);
        break;
      default:
        throw malformed();
    }
  }
  return found;
}

/** Values of the field as texts; '' is never among them unless it was sent. */
export function texts(message: readonly WireField[], field: number): string[] {
  return byteValues(message, field).map((bytes) =>
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString(),
  );
}

/** The last value of the field as text; '' when there is none. */
export function text(message: readonly WireField[], field: number): string {
  return texts(message, field).at(-1) ?? '';
}

export function byteValues(message: readonly WireField[], field: number): Uint8Array[] {
  return message.flatMap((found) => (found.field === field && typeof found.value !== 'number' ? [found.value] : []));
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}

function malformed(): CtlError {
  return new CtlError('invalid_argument', 'not a protobuf message');
}
