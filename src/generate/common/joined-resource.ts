/** A resource whose message is joined from pieces that are reused from one generation to the next. */
import type { GeneratedResource } from '../types.ts';

/** The message is the concatenation of the pieces, which are only joined when the message is read. */
export function joinedResource(
  name: string,
  pieces: readonly Uint8Array[],
  refs: readonly string[],
): GeneratedResource {
  let joined: Uint8Array | undefined;
  return {
    name,
    refs,
    pieces,
    get bytes() {
      joined ??= join(pieces);
      return joined;
    },
  };
}

function join(pieces: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
}
