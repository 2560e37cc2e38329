/**
 * A reader of the protobuf wire format over bytes from the network. Hand-written because requests come from whoever
 * reaches the port: nothing is decoded that is not asked for (a Struct nested ten thousand deep is one skipped field),
 * nothing recurses by itself, and every length is checked against its enclosing field. Source:
 * https://protobuf.dev/programming-guides/encoding/
 */
import { CtlError } from '../../core/errors.ts';

/**
 * One field: `value` for varints and fixed numbers, `start`/`end` (offsets in the reader's bytes) for length-delimited
 * ones; `tag` is where the field begins.
 */
export interface WireField {
  number: number;
  wireType: number;
  value: number;
  tag: number;
  start: number;
  end: number;
}

export const WIRE_VARINT = 0;
export const WIRE_BYTES = 2;

/** Most bytes of a varint. */
export const MAX_VARINT_BYTES = 10;

function broken(what: string): CtlError {
  return new CtlError('invalid_argument', `not a protobuf message: ${what}`);
}

/** Walks over the fields of one message. `next` fills and returns the same object, so that a walk allocates nothing. */
export class WireReader {
  readonly bytes: Buffer;
  #at: number;
  readonly #end: number;
  readonly #field: WireField = { number: 0, wireType: 0, value: 0, tag: 0, start: 0, end: 0 };

  constructor(bytes: Buffer, start = 0, end = bytes.length) {
    this.bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /** The next field, or undefined at the end. Throws CtlError invalid_argument on junk. */
  next(): WireField | undefined {
    if (this.#at >= this.#end) return undefined;
    const field = this.#field;
    field.tag = this.#at;
    const tag = this.#varint();
    field.number = Math.floor(tag / 8);
    field.wireType = tag % 8;
    if (field.number === 0) throw broken('field number 0');
    field.value = 0;
    field.start = this.#at;
    switch (field.wireType) {
      case WIRE_VARINT:
        field.value = this.#varint();
        break;
      case 1:
        this.#skip(8);
        break;
      case WIRE_BYTES: {
        const length = this.#varint();
        field.start = this.#at;
        this.#skip(length);
        break;
      }
      case 5:
        this.#skip(4);
        break;
      default:
        // Groups (3, 4) are not used by any xDS message; 6 and 7 do not exist.
        throw broken(`wire type ${field.wireType}`);
    }
    field.end = this.#at;
    return field;
  }

  /** Text of a length-delimited field. */
  text(field: WireField): string {
    if (field.wireType !== WIRE_BYTES) throw broken(`field ${field.number} is not a string`);
    return this.bytes.toString('utf8', field.start, field.end);
  }

  /** A reader of the message inside a length-delimited field. */
  inside(field: WireField): WireReader {
    if (field.wireType !== WIRE_BYTES) throw broken(`field ${field.number} is not a message`);
    return new WireReader(this.bytes, field.start, field.end);
  }

  #skip(length: number): void {
    if (length > this.#end - this.#at) throw broken('a field is longer than its message');
    this.#at += length;
  }

  /** Values beyond 2^53 lose precision; nothing read here is that large. */
  #varint(): number {
    let value = 0;
    let scale = 1;
    for (let count = 0; count < MAX_VARINT_BYTES; count++) {
      if (this.#at >= this.#end) throw broken('it ends inside a number');
      const byte = this.bytes[this.#at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw broken('a number of more than 10 bytes');
  }
}

/** Bytes that a varint takes. */
export function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 128)) length++;
  return length;
}

/** Writes a varint at `offset`; returns the offset behind it. */
export function writeVarint(target: Uint8Array, offset: number, value: number): number {
  let at = offset;
  let rest = value;
  while (rest > 0x7f) {
    target[at++] = (rest % 128) | 0x80;
    rest = Math.floor(rest / 128);
  }
  target[at++] = rest;
  return at;
}

/** A string to be written as field `number`. */
export interface StringField {
  readonly number: number;
  readonly text: string;
}

/**
 * Encodes strings as length-delimited fields behind `reserve` free bytes (for a frame prefix). Empty strings are kept:
 * callers leave out what is default.
 */
export function encodeStrings(fields: readonly StringField[], reserve = 0): Buffer {
  let size = reserve;
  const lengths = fields.map(({ text }) => Buffer.byteLength(text));
  fields.forEach(({ number }, index) => {
    const length = lengths[index] ?? 0;
    size += varintLength(number * 8 + WIRE_BYTES) + varintLength(length) + length;
  });
  const out = Buffer.allocUnsafe(size);
  let at = reserve;
  fields.forEach(({ number, text }, index) => {
    at = writeVarint(out, at, number * 8 + WIRE_BYTES);
    at = writeVarint(out, at, lengths[index] ?? 0);
    at += out.write(text, at);
  });
  return out;
}
