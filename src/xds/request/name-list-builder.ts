/**
 * A list that is being learned. When a server starts, its proxies come back all at once, and what they name is not
 * known yet: so what the first of them has said is what the others are compared with, and whoever is ahead adds to it.
 * One list is put together, not a thousand.
 */
import { FieldScanner } from '../../protobuf/wire/index.ts';

/** A list, in one of the ways to write it: whole encoded fields, of which the first begins the bytes. */
export interface ListForm {
  readonly bytes: Buffer;
}

/** How the buffer grows: room is only taken for what has come, and for no more than was announced. */
const GROWTH = 4;

const scan = new FieldScanner();

export class NameListBuilder {
  /**
   * What has come, up to `filled`: the entries, and behind them maybe the first bytes of the next field. It is never
   * changed, only added to.
   */
  bytes: Buffer = Buffer.alloc(0);
  filled = 0;
  readonly #learn: (entries: Buffer, count: number) => ListForm | undefined;
  #field: number | undefined;
  /** Whole entries, and where they end. */
  #count = 0;
  #scanned = 0;
  #form: ListForm | undefined;
  #open = true;

  /** `learn` makes whole entries a known list; it may throw. */
  constructor(learn: (entries: Buffer, count: number) => ListForm | undefined) {
    this.#learn = learn;
  }

  /** More can be added. */
  get open(): boolean {
    return this.#open;
  }

  /** The list, when its end has come and it could be learned. */
  get form(): ListForm | undefined {
    return this.#form;
  }

  /** Copies what goes on with the list; returns how far that is. `left`: bytes behind it that may come. */
  append(source: Buffer, start: number, end: number, left: number): number {
    const before = this.filled;
    const filled = before + end - start;
    if (filled > this.bytes.length) {
      const larger = Buffer.allocUnsafe(Math.min(GROWTH * filled, filled + left));
      this.bytes.copy(larger, 0, 0, before);
      this.bytes = larger;
    }
    source.copy(this.bytes, before, start, end);
    this.filled = filled;
    this.#scan();
    if (this.#open) return end;
    // What was behind the list in this source is not the list's.
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

  /** Nothing more comes. */
  end(): void {
    this.#open = false;
    if (this.#count === 0) return;
    try {
      this.#form = this.#learn(this.bytes.subarray(0, this.#scanned), this.#count);
    } catch {
      // Whoever sent it is told when the request is decoded.
    }
  }
}
