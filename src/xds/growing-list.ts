/**
 * A list that is being learned. When a server starts, its proxies come back all at once, and what they name is not known yet: so what the
 * first of them has said is what the others are compared with, and whoever is ahead adds to it. One list is put together, not a thousand.
 */
import type { ListForm } from './known-lists.ts';
import { WIRE_BYTES } from './wire.ts';

/** How the buffer grows. */
const GROWTH = 2;

const MAX_VARINT_BYTES = 10;

/** Reads a varint: [value, offset behind it], or undefined when it does not end before `end`, or is none. */
function varintAt(bytes: Buffer, start: number, end: number): [number, number] | undefined {
  let value = 0;
  let scale = 1;
  const limit = Math.min(end, start + MAX_VARINT_BYTES);
  for (let at = start; at < limit; at++) {
    const byte = bytes[at] ?? 0;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return [value, at + 1];
    scale *= 128;
  }
  return undefined;
}

/** Field number and end of the length-delimited field at `start`; undefined when too little of it is there, or it is of another kind. */
export function fieldAt(bytes: Buffer, start: number, end: number): { number: number; end: number } | undefined {
  const tag = varintAt(bytes, start, end);
  if (tag === undefined || tag[0] % 8 !== WIRE_BYTES) return undefined;
  const length = varintAt(bytes, tag[1], end);
  return length === undefined ? undefined : { number: Math.floor(tag[0] / 8), end: length[1] + length[0] };
}

export class GrowingList {
  /** What has come, up to `filled`: the entries, and behind them maybe a part of the next field. It is never changed, only added to. */
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

  append(source: Buffer, start: number, end: number): void {
    const filled = this.filled + end - start;
    if (filled > this.bytes.length) {
      const larger = Buffer.allocUnsafe(GROWTH * filled);
      this.bytes.copy(larger, 0, 0, this.filled);
      this.bytes = larger;
    }
    source.copy(this.bytes, this.filled, start, end);
    this.filled = filled;
    this.#scan();
  }

  #scan(): void {
    for (;;) {
      const field = fieldAt(this.bytes, this.#scanned, this.filled);
      if (field === undefined) return;
      this.#field ??= field.number;
      if (field.number !== this.#field) {
        this.end();
        return;
      }
      if (field.end > this.filled) return;
      this.#scanned = field.end;
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
