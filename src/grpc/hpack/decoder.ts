/**
 * Decodes header blocks. Each connection has one decoder, which has to decode all blocks of the connection in order,
 * also those of refused requests. The cost of a block is bounded by its own bytes: fields that are referred
 * to are shared, and a list that is too large is dropped. Source: RFC 7541.
 */
import { FieldTable, sizeOf } from './dynamic-table.ts';
import { HeaderListTooLarge, HpackError } from './errors.ts';
import { decodeHuffman } from './huffman.ts';
import type { HeaderField } from './types.ts';

/** Representations of a field by their first bits (RFC 7541, 6), and the number of integer bits in that byte. */
const INDEXED = 0x80;
const INDEXED_BITS = 7;
const LITERAL_KEPT = 0x40;
const LITERAL_KEPT_BITS = 6;
const TABLE_SIZE = 0x20;
const TABLE_SIZE_BITS = 5;
const LITERAL_BITS = 4;
const HUFFMAN = 0x80;
const STRING_BITS = 7;

/** Limit of the bytes of an integer after its first: 28 bits, more than any valid value here needs. */
const MAX_INTEGER_SHIFT = 21;

const NOTHING = Buffer.alloc(0);

export interface HpackDecoderOptions {
  /** Largest size of the dynamic table, bytes: that of SETTINGS_HEADER_TABLE_SIZE, at least the default of 4096. */
  readonly maxTableBytes: number;
  /** Largest list, bytes: names, values and 32 per field, as in SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113, 6.5.2). */
  readonly maxListBytes: number;
}

export class HpackDecoder {
  readonly #table: FieldTable;
  readonly #maxListBytes: number;
  #block: Buffer = NOTHING;
  #at = 0;

  constructor({ maxTableBytes, maxListBytes }: HpackDecoderOptions) {
    this.#table = new FieldTable(maxTableBytes);
    this.#maxListBytes = maxListBytes;
  }

  /**
   * The fields of a whole block (HEADERS with all of its CONTINUATIONs), in order; strings have a character per byte.
   * Does not check whether HTTP allows the names and values. Throws HpackError for a malformed block, after
   * which the decoder cannot be used, and HeaderListTooLarge for a valid block that is too large.
   */
  decode(block: Buffer): HeaderField[] {
    this.#block = block;
    this.#at = 0;
    try {
      return this.#readList();
    } finally {
      this.#block = NOTHING;
    }
  }

  #readList(): HeaderField[] {
    const fields: HeaderField[] = [];
    let listBytes = 0;
    this.#readTableSizes();
    while (this.#at < this.#block.length) {
      const field = this.#readField();
      listBytes += sizeOf(field);
      if (listBytes <= this.#maxListBytes) fields.push(field);
      else fields.length = 0;
    }
    if (listBytes > this.#maxListBytes)
      throw new HeaderListTooLarge(`a header list of ${listBytes} bytes, which is over ${this.#maxListBytes}`);
    return fields;
  }

  /** The size of the table may change only at the beginning of a block (RFC 7541, 4.2). */
  #readTableSizes(): void {
    while (this.#at < this.#block.length && (this.#peek() & 0xe0) === TABLE_SIZE)
      this.#table.resize(this.#readInteger(TABLE_SIZE_BITS));
  }

  #readField(): HeaderField {
    const first = this.#peek();
    if ((first & INDEXED) !== 0) return this.#table.at(this.#readInteger(INDEXED_BITS));
    if ((first & LITERAL_KEPT) !== 0) {
      const field = this.#readLiteral(LITERAL_KEPT_BITS);
      this.#table.add(field);
      return field;
    }
    if ((first & TABLE_SIZE) !== 0)
      throw new HpackError('a dynamic table size update after the start of a header block');
    return this.#readLiteral(LITERAL_BITS);
  }

  #readLiteral(bits: number): HeaderField {
    const index = this.#readInteger(bits);
    const name = index === 0 ? this.#readString() : this.#table.at(index).name;
    return { name, value: this.#readString() };
  }

  #readString(): string {
    const huffman = (this.#peek() & HUFFMAN) !== 0;
    const length = this.#readInteger(STRING_BITS);
    const start = this.#at;
    const end = start + length;
    if (end > this.#block.length) throw new HpackError('a header string is cut off');
    this.#at = end;
    return huffman ? decodeHuffman(this.#block, start, end) : this.#block.toString('latin1', start, end);
  }

  /** An integer that begins with the low `bits` of the next byte (RFC 7541, 5.1). */
  #readInteger(bits: number): number {
    const mask = (1 << bits) - 1;
    let value = this.#peek() & mask;
    this.#at++;
    if (value < mask) return value;
    for (let shift = 0; shift <= MAX_INTEGER_SHIFT; shift += 7) {
      const byte = this.#peek();
      this.#at++;
      value += (byte & 0x7f) << shift;
      if ((byte & 0x80) === 0) return value;
    }
    throw new HpackError('an integer in a header block is too large');
  }

  #peek(): number {
    const byte = this.#block[this.#at];
    if (byte === undefined) throw new HpackError('a header block is cut off');
    return byte;
  }
}
