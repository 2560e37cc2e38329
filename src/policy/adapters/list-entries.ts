/** The entries of a list, indexed by how they are compared, so that a look-up does not grow with the list. */
import { CtlError } from '../../core/errors.ts';
import type { Value } from '../../expressions/index.ts';
import { readRegex, regexMatcher } from '../../regex/index.ts';
import { addressBytes } from '../attributes/values.ts';
import type { ListParams } from '../types.ts';
import { textOf } from './types.ts';

/** Entries of a list; patterns are compared one by one. */
export const MAX_ENTRIES = 100_000;
const MAX_PATTERNS = 500;
const MAX_PATTERN_CHARACTERS = 1_000;
/** Instructions of a pattern. */
const MAX_PATTERN_PROGRAM = 1_000;
/** Characters of a value times the instructions of all patterns: some ten milliseconds. */
const MAX_STEPS = 2_000_000;
/** A longer value is not compared: matching takes time with its length. */
const MAX_VALUE_CHARACTERS = 8_192;

export interface Entries {
  readonly size: number;
  /** Throws CtlError `invalid_argument` for a value that cannot be compared. */
  has(value: Value): boolean;
}

/** Throws CtlError `invalid_argument` that names the first entry which is not usable. */
export function entriesOf(type: ListParams['entryType'], written: readonly string[]): Entries {
  const limit = type === 'REGEX' ? MAX_PATTERNS : MAX_ENTRIES;
  if (written.length > limit)
    throw new CtlError('invalid_argument', `the list has ${written.length} entries, at most ${limit} are allowed`);
  switch (type) {
    case 'STRINGS':
      return strings(new Set(written), (text) => text);
    case 'CASE_INSENSITIVE_STRINGS':
      return strings(new Set(written.map((each) => each.toLowerCase())), (text) => text.toLowerCase());
    case 'IP_ADDRESSES':
      return addresses(written);
    case 'REGEX':
      return patterns(written);
  }
}

function comparable(value: Value): string {
  const text = textOf(value);
  if (text.length <= MAX_VALUE_CHARACTERS) return text;
  throw new CtlError('invalid_argument', `the value is longer than ${MAX_VALUE_CHARACTERS} characters`);
}

function strings(known: ReadonlySet<string>, normalized: (text: string) => string): Entries {
  return { size: known.size, has: (value) => known.has(normalized(comparable(value))) };
}

function patterns(written: readonly string[]): Entries {
  const compiled = written.map((pattern) => {
    if (pattern.length > MAX_PATTERN_CHARACTERS)
      throw new CtlError('invalid_argument', `a pattern is longer than ${MAX_PATTERN_CHARACTERS} characters`);
    const read = readRegex(pattern, MAX_PATTERN_PROGRAM);
    if ('problem' in read) throw new CtlError('invalid_argument', `${JSON.stringify(pattern)}: ${read.problem}`);
    return { matches: regexMatcher(pattern), size: read.size };
  });
  const size = compiled.reduce((sum, each) => sum + each.size, 0);
  return {
    size: compiled.length,
    has(value) {
      const text = comparable(value);
      if (text.length * size > MAX_STEPS) {
        const message = `the value has ${text.length} characters, too many for the patterns of the list`;
        throw new CtlError('resource_exhausted', message);
      }
      return compiled.some(({ matches }) => matches(text));
    },
  };
}

/** Bits of an IPv6 address before the IPv4 address that it maps. */
const MAPPED_BITS = 96;

/** Address ranges by length of their prefix. */
function addresses(written: readonly string[]): Entries {
  const prefixes = new Map<number, Set<string>>();
  for (const range of written) {
    const [text = '', length, ...more] = range.split('/');
    const bytes = addressBytes(text);
    const bits = length === undefined ? (bytes?.length ?? 0) * 8 : Number(length);
    const isRange = bytes !== undefined && more.length === 0 && /^\d*$/.test(length ?? '') && bits <= bytes.length * 8;
    if (!isRange || length === '')
      throw new CtlError('invalid_argument', `${JSON.stringify(range.slice(0, 100))} is not an address or range`);
    const address = bits >= MAPPED_BITS ? unmapped(bytes) : bytes;
    const prefix = address === bytes ? bits : bits - MAPPED_BITS;
    const key = address.length * 1000 + prefix;
    prefixes.set(key, (prefixes.get(key) ?? new Set()).add(masked(address, prefix)));
  }
  return {
    size: written.length,
    has(value) {
      const given = value instanceof Uint8Array ? value : addressBytes(comparable(value));
      if (given === undefined) throw new CtlError('invalid_argument', 'the value is not an IP address');
      const bytes = unmapped(given);
      for (const [key, known] of prefixes) {
        if (Math.floor(key / 1000) === bytes.length && known.has(masked(bytes, key % 1000))) return true;
      }
      return false;
    },
  };
}

/** The IPv4 address in an IPv6 address that maps one (RFC 4291 section 2.5.5.2). */
function unmapped(bytes: Uint8Array): Uint8Array {
  const isMapped = bytes.length === 16 && bytes.subarray(0, 10).every((byte) => byte === 0);
  return isMapped && bytes[10] === 255 && bytes[11] === 255 ? bytes.subarray(12) : bytes;
}

function masked(bytes: Uint8Array, bits: number): string {
  return Array.from(bytes, (byte, at) => byte & ((0xff00 >> Math.min(8, Math.max(0, bits - 8 * at))) & 0xff)).join('.');
}
