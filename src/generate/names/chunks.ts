/**
 * Encoded names in chunks: a table has thousands of names, and a change usually affects one. The end of a chunk depends
 * on one name only, so adding or removing a name changes one or two chunks.
 */
import type { Memos } from '../../core/memo.ts';

/** A name in a list. Immutable. */
interface ListedName {
  /** Whether a chunk ends with it: see {@link endsChunk}. */
  readonly endsChunk: boolean;
}

interface Chunk {
  readonly names: readonly ListedName[];
  readonly bytes: Uint8Array;
}

/**
 * The concatenated encodings of names, in their order.
 * @param memo name of the memo of chunks with this encoding
 */
export function encodedChunks<Name extends ListedName>(
  memos: Memos,
  memo: string,
  names: readonly Name[],
  encode: (name: Name) => Uint8Array,
): readonly Uint8Array[] {
  const chunks = memos.weak<Name, { last?: Chunk }>(memo);
  const pieces: Uint8Array[] = [];
  for (let start = 0; start < names.length; ) {
    const first = names[start];
    if (first === undefined) break;
    let end = start + 1;
    while (end < names.length && names[end - 1]?.endsChunk === false) end++;
    // A chunk is found by its first name.
    const known = chunks.get(first, () => ({}));
    if (known.last === undefined || !isPartOf(known.last.names, names, start, end)) {
      const own = names.slice(start, end);
      known.last = { names: own, bytes: concatenated(own.map(encode)) };
    }
    pieces.push(known.last.bytes);
    start = end;
  }
  return pieces;
}

function isPartOf(chunk: readonly ListedName[], names: readonly ListedName[], start: number, end: number): boolean {
  if (chunk.length !== end - start) return false;
  for (let i = 0; i < chunk.length; i++) if (chunk[i] !== names[start + i]) return false;
  return true;
}

export function concatenated(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** Names in a chunk on average. */
const CHUNK_SIZE = 64;

/** @param place of the name: see {@link placeOfName} */
export function endsChunk(place: number): boolean {
  return place < PLACES / CHUNK_SIZE;
}

export const PLACES = 0x10000;

/** A hash of a name: 0 ≤ place < {@link PLACES}. */
export function placeOfName(host: string): number {
  let hash = 0;
  for (let i = 0; i < host.length; i++) hash = (Math.imul(hash, 31) + host.charCodeAt(i)) | 0;
  // The low bits only depend on the last characters, which many hosts share.
  return Math.imul(hash, 0x9e3779b1) >>> 16;
}
