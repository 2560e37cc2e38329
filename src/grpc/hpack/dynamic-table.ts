/**
 * The fields that a peer can refer to by index: those of the static table, and the most recent ones that the peer has
 * added. Source: RFC 7541, 2.3 and 4.
 */
import { HpackError } from './errors.ts';
import { STATIC_FIELDS } from './static-table.ts';
import type { HeaderField } from './types.ts';

/**
 * Bytes added to the size of each field, in tables (RFC 7541, 4.1) and in lists (RFC 9113, 6.5.2).
 */
const FIELD_OVERHEAD = 32;

/** Size of a field, bytes. */
export function sizeOf(field: HeaderField): number {
  return field.name.length + field.value.length + FIELD_OVERHEAD;
}

export class FieldTable {
  readonly #limit: number;
  #maxBytes: number;
  #bytes = 0;
  /** Oldest first. */
  readonly #kept: HeaderField[] = [];

  /** @param limit largest size that the peer may set, and the initial size, bytes */
  constructor(limit: number) {
    this.#limit = limit;
    this.#maxBytes = limit;
  }

  at(index: number): HeaderField {
    const dynamic = index - STATIC_FIELDS.length;
    const field = dynamic <= 0 ? STATIC_FIELDS[index - 1] : this.#kept[this.#kept.length - dynamic];
    if (field === undefined) throw new HpackError(`no header field has the index ${index}`);
    return field;
  }

  /** A field that is larger than the table empties it; this is not an error (RFC 7541, 4.4). */
  add(field: HeaderField): void {
    const size = sizeOf(field);
    this.#evict(this.#maxBytes - size);
    if (size > this.#maxBytes) return;
    this.#kept.push(field);
    this.#bytes += size;
  }

  resize(bytes: number): void {
    if (bytes > this.#limit) throw new HpackError(`a header table of ${bytes} bytes, which is over ${this.#limit}`);
    this.#maxBytes = bytes;
    this.#evict(bytes);
  }

  #evict(untilBytes: number): void {
    while (this.#bytes > untilBytes) {
      const oldest = this.#kept.shift();
      if (oldest === undefined) return;
      this.#bytes -= sizeOf(oldest);
    }
  }
}
