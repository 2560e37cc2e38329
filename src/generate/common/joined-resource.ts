/** A resource whose message is put together from pieces that are kept from one generation to the next. */
import type { GeneratedResource } from '../types.ts';

/** The pieces one after the other are the message; they are joined only when somebody asks for the whole. */
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
