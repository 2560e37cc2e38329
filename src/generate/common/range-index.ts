/** Indexes address ranges by prefix, to find the ranges that contain another range without comparing it with each. */
import { maskedRange, parseRange } from './cidr.ts';

export class RangeIndex {
  /** Canonical form → the range as it was first written. */
  readonly #ranges = new Map<string, string>();
  /** Prefix lengths by the number of bytes of an address, descending. */
  readonly #lengths = new Map<number, number[]>();

  constructor(ranges: Iterable<string>) {
    const lengths = new Map<number, Set<number>>();
    for (const written of ranges) {
      const range = parseRange(written);
      if (range === undefined) continue;
      const key = maskedRange(range, range.bits);
      if (!this.#ranges.has(key)) this.#ranges.set(key, written);
      const size = range.bytes.length;
      lengths.set(size, (lengths.get(size) ?? new Set()).add(range.bits));
    }
    for (const [size, found] of lengths)
      this.#lengths.set(
        size,
        [...found].sort((a, b) => b - a),
      );
  }

  /** The narrowest range that contains this range or address; undefined if there is none. */
  around(text: string): string | undefined {
    const range = parseRange(text);
    if (range === undefined) return undefined;
    for (const bits of this.#lengths.get(range.bytes.length) ?? []) {
      const found = bits <= range.bits ? this.#ranges.get(maskedRange(range, bits)) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  }
}
