/** Indexes address ranges by prefix, to find the ranges that contain another range without comparing it with each. */
import { maskedRange, parseRange } from './cidr.ts';

export class RangeIndex {
  /** Canonical form → the range as it was first written. */
  readonly #ranges = new Map<string, string>();
  /** Prefix lengths by the number of bytes of an address, descending. */
  readonly #lengths = new Map<number, number[]>();

  constructor(ranges: Iterable<string> = []) {
    for (const range of ranges) this.add(range);
  }

  /** Strings that are no range are ignored. */
  add(written: string): void {
    const range = parseRange(written);
    if (range === undefined) return;
    const key = maskedRange(range, range.bits);
    if (!this.#ranges.has(key)) this.#ranges.set(key, written);
    const lengths = this.#lengths.get(range.bytes.length) ?? [];
    this.#lengths.set(range.bytes.length, lengths);
    if (lengths.includes(range.bits)) return;
    lengths.push(range.bits);
    lengths.sort((a, b) => b - a);
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
