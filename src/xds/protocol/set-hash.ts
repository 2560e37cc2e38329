/**
 * A hash of a set that does not depend on order and can be updated for added and removed members: the sum of the
 * members' hashes. It has two parts of 32 bits: with 64 bits, the probability of a collision of two sets is about
 * 10^-19. It is not a cryptographic hash.
 */

/** Signed numbers of 32 bits, for which V8 needs no objects. */
export interface SetHash {
  readonly a: number;
  readonly b: number;
}

export const EMPTY_HASH: SetHash = { a: 0, b: 0 };

/** Two FNV-1a runs with different offset bases and primes, each finished so that sums do not cancel. */
export function hashText(text: string): SetHash {
  let a = 0x811c9dc5;
  let b = 0x9747b28c;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x5bd1e995);
    b ^= b >>> 13;
  }
  return { a: finish(a), b: finish(b) };
}

/** The 32-bit finalizer of MurmurHash3. */
function finish(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) | 0;
}

export function plus(x: SetHash, y: SetHash): SetHash {
  return { a: (x.a + y.a) | 0, b: (x.b + y.b) | 0 };
}

export function minus(x: SetHash, y: SetHash): SetHash {
  return { a: (x.a - y.a) | 0, b: (x.b - y.b) | 0 };
}

const LOW_BITS = 20;

/** 52 bits of a hash, which fit into a number. */
export function numberOf({ a, b }: SetHash): number {
  return (a >>> 0) * 2 ** LOW_BITS + (b >>> (32 - LOW_BITS));
}

/** 16 hex digits. */
export function hashToText({ a, b }: SetHash): string {
  return hex(a) + hex(b);
}

function hex(part: number): string {
  return (part >>> 0).toString(16).padStart(8, '0');
}
