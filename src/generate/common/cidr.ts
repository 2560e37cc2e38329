/** Address ranges as Envoy matches them. */
import { addressBytes } from '../../model/index.ts';
import type { envoy } from '../../protobuf/index.ts';

/** A range in canonical form: the bits after the prefix are zero. */
export interface Range {
  readonly bytes: readonly number[];
  readonly bits: number;
}

/** A range or single address; undefined for any other string. */
export function parseRange(text: string): Range | undefined {
  const [address = '', length, ...more] = text.split('/');
  const bytes = addressBytes(address);
  if (bytes === undefined || more.length > 0) return undefined;
  const bits = length === undefined ? bytes.length * 8 : Number(length);
  if (!Number.isInteger(bits) || bits < 0 || bits > bytes.length * 8) return undefined;
  return { bytes: bytes.map((byte, index) => byte & prefixMask(bits - index * 8)), bits };
}

/** Mask of a byte in which `bits` bits belong to the prefix. */
function prefixMask(bits: number): number {
  return (0xff00 >> Math.max(0, Math.min(8, bits))) & 0xff;
}

/** The range with this prefix length that contains another one, as a canonical string. */
export function maskedRange({ bytes }: Range, bits: number): string {
  return `${bytes.map((byte, index) => byte & prefixMask(bits - index * 8)).join('.')}/${bits}`;
}

/** Whether it is a range of more than one address. */
export function isRange(text: string): boolean {
  const range = text.includes('/') ? parseRange(text) : undefined;
  return range !== undefined && range.bits < range.bytes.length * 8;
}

/** Whether a range (or single address) contains an address; false for strings that are neither. */
export function rangeHolds(range: string, address: string): boolean {
  const [outer, inner] = [parseRange(range), parseRange(address)];
  if (outer === undefined || inner === undefined || outer.bytes.length !== inner.bytes.length) return false;
  return outer.bytes.every((byte, index) => byte === ((inner.bytes[index] ?? 0) & prefixMask(outer.bits - index * 8)));
}

/** Equal for strings with the same address or range; other strings (socket paths) are their own key. */
export function addressKey(text: string): string {
  const range = parseRange(text);
  return range === undefined ? text : maskedRange(range, range.bits);
}

/** A range (or single address) for a filter chain match; undefined when the string is neither. */
export function cidrRange(text: string): envoy.config.core.v3.CidrRange.Input | undefined {
  const range = parseRange(text);
  if (range === undefined) return undefined;
  return { addressPrefix: addressText(range.bytes), prefixLen: { value: range.bits } };
}

/** The ranges without duplicates, in the given order. */
export function cidrRanges(texts: readonly string[]): envoy.config.core.v3.CidrRange.Input[] {
  const byKey = new Map<string, envoy.config.core.v3.CidrRange.Input>();
  for (const text of texts) {
    const range = cidrRange(text);
    if (range !== undefined) byKey.set(addressKey(text), range);
  }
  return [...byKey.values()];
}

function addressText(bytes: readonly number[]): string {
  if (bytes.length === 4) return bytes.join('.');
  const groups: string[] = [];
  for (let i = 0; i < bytes.length; i += 2) groups.push((((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0)).toString(16));
  // RFC 5952: the longest run of zero groups is left out once.
  const text = groups.join(':');
  const runs = text.match(/(?:^|:)0(?::0)+(?=:|$)/g) ?? [];
  const longest = runs.toSorted((a, b) => b.replace(/^:/, '').length - a.replace(/^:/, '').length)[0];
  if (longest === undefined) return text;
  const at = text.indexOf(longest);
  const head = text.slice(0, at);
  const tail = text.slice(at + longest.length).replace(/^:/, '');
  return `${head}::${tail}`;
}
