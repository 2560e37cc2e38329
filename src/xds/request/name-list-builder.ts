/**
 * Learns a list while several streams send it. When a server starts, its proxies reconnect all at once, and their lists
 * are not known yet. Each stream is compared with the bytes that the first of them has sent, and the stream that is
 * ahead appends to them: one list is assembled instead of a thousand.
 */
import { FieldScanner } from '../../protobuf/wire/index.ts';

/** One encoding of a list: whole fields with its entries in some order. */
export interface ListForm {
  readonly bytes: Buffer;
}

/** Factor by which the buffer grows: memory is allocated for received bytes, and at most for the announced length. */
const GROWTH = 4;

const scan = new FieldScanner();

export class NameListBuilder {
  /**
   * The bytes that have arrived, up to `filled`: entries, perhaps followed by the first bytes of the next field. They
   * are never changed, only appended to.
   */
  bytes: Buffer = Buffer.alloc(0);
  filled = 0;
  readonly #learn: (entries: Buffer, count: number) => ListForm | undefined;
  #field: number | undefined;
  /** Number of whole entries, and the offset of their end. */
  #count = 0;
  #scanned = 0;
  #form: ListForm | undefined;
  #open = true;

  /** @param learn makes a known list of whole entries; may throw */
  constructor(learn: (entries: Buffer, count: number) => ListForm | undefined) {
    this.#learn = learn;
  }

  /** More can be appended. */
  get open(): boolean {
    return this.#open;
  }

  /** The list, after its end has arrived and it was learned. */
  get form(): ListForm | undefined {
    return this.#form;
  }

  /**
   * Appends the part of `source` that belongs to the list.
   * @param left bytes of the message after `end`
   * @returns the end of that part
   */
  append(source: Buffer, start: number, end: number, left: number): number {
    const before = this.filled;
    const filled = before + end - start;
    if (filled > this.bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(GROWTH * filled, filled + left));
      this.bytes.copy(larger, 0, 0, before);
      this.bytes = larger;
    }
    source.copy(this.bytes, before, start, end);
    this.filled = filled;
    this.#scan();
    if (this.#open) return end;
    // Bytes of the next field are not part of the list.
    this.filled = Math.max(before, this.#scanned);
    return start + this.filled - before;
  }

  #scan(): void {
    while (scan.read(this.bytes, this.#scanned, this.filled)) {
      this.#field ??= scan.number;
      if (scan.number !== this.#field) {
        this.end();
        return;
      }
      if (scan.end > this.filled) return;
      this.#scanned = scan.end;
      this.#count++;
    }
  }

  /** The list is complete. */
  end(): void {
    this.#open = false;
    if (this.#count === 0) return;
    try {
      this.#form = this.#learn(this.bytes.subarray(0, this.#scanned), this.#count);
    } catch {
      // Reported to the sender when its request is decoded.
    }
  }
}
