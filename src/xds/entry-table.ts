/**
 * The entries of an encoded repeated field as a set of byte strings: says whether another encoding has the same entries in any
 * order, without making a string of any. Exact: entries are found by hash and compared byte by byte.
 */

/** Entries looked at for one hash; more than by chance ever meet. Whoever makes many meet is told that lists differ. */
const MAX_PROBES = 32;

/** Slots per entry. */
const SPARSENESS = 3;

function viewOf(bytes: Buffer): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** End of the entry at `start`: a tag, a length, as many bytes; known to be well-formed. */
function entryEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  while ((bytes[at++] ?? 0) >= 0x80);
  let length = 0;
  let scale = 1;
  for (;;) {
    const byte = bytes[at++] ?? 0;
    length += (byte & 0x7f) * scale;
    if (byte < 0x80) return at + length;
    scale *= 128;
  }
}

/** Spreads entries over slots; four bytes at a time. */
function hashOf(view: DataView, start: number, end: number): number {
  let hash = end - start;
  let at = start;
  for (; at + 4 <= end; at += 4) {
    hash = Math.imul(hash ^ view.getUint32(at, true), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  for (; at < end; at++) hash = Math.imul(hash ^ view.getUint8(at), 0x9e3779b1);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function equal(a: DataView, aStart: number, b: DataView, bStart: number, length: number): boolean {
  let at = 0;
  for (; at + 4 <= length; at += 4) if (a.getUint32(aStart + at, true) !== b.getUint32(bStart + at, true)) return false;
  for (; at < length; at++) if (a.getUint8(aStart + at) !== b.getUint8(bStart + at)) return false;
  return true;
}

export class EntryTable {
  readonly #view: DataView;
  readonly #count: number;
  /** Where each entry begins, and where the last ends. */
  readonly #starts: Int32Array;
  /** Number of an entry + 1, or 0. Its size is a power of two. */
  readonly #slots: Int32Array;

  /** `bytes`: `count` well-formed length-delimited entries, all different. */
  constructor(bytes: Buffer, count: number) {
    this.#view = viewOf(bytes);
    this.#count = count;
    this.#starts = new Int32Array(count + 1);
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(count * SPARSENESS)));
    for (let index = 0, at = 0; index < count; index++) {
      const end = entryEnd(bytes, at);
      this.#starts[index] = at;
      this.#starts[index + 1] = end;
      this.#insert(index, hashOf(this.#view, at, end));
      at = end;
    }
  }

  /** An entry that finds no slot is never found: then nothing is the same as this. */
  #insert(index: number, hash: number): void {
    const mask = this.#slots.length - 1;
    for (let probe = 0; probe < MAX_PROBES; probe++) {
      const slot = (hash + probe) & mask;
      if (this.#slots[slot] !== 0) continue;
      this.#slots[slot] = index + 1;
      return;
    }
  }

  /** True when `bytes`, as many entries and bytes as this has, are the same entries. */
  sameAs(bytes: Buffer): boolean {
    const view = viewOf(bytes);
    const seen = new Uint8Array(this.#count);
    for (let at = 0; at < bytes.length; ) {
      const end = entryEnd(bytes, at);
      const index = this.#find(view, at, end);
      if (index === undefined || seen[index] === 1) return false;
      seen[index] = 1;
      at = end;
    }
    return true;
  }

  #find(view: DataView, start: number, end: number): number | undefined {
    const mask = this.#slots.length - 1;
    const hash = hashOf(view, start, end);
    for (let probe = 0; probe < MAX_PROBES; probe++) {
      const index = (this.#slots[(hash + probe) & mask] ?? 0) - 1;
      if (index < 0) return undefined;
      const from = this.#starts[index] ?? 0;
      const to = this.#starts[index + 1] ?? 0;
      if (to - from === end - start && equal(this.#view, from, view, start, end - start)) return index;
    }
    return undefined;
  }
}
