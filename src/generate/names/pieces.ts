/**
 * A name table in pieces, each a resource: for agents that merge them, so that a change of one name is a small
 * response. The piece of a name depends on the name alone, so a name never moves from one piece to another.
 */
import type { Memos } from '../../core/memo.ts';
import type { GeneratedResource } from '../types.ts';
import { PLACES } from './chunks.ts';
import type { Name } from './service-names.ts';

/**
 * Each piece costs 90 bytes of a table, and some 25 bytes of a request after a reconnect. With 10,000 names, a changed
 * name is sent with forty others, 5 kB.
 */
const PIECES = 256;

interface Piece {
  readonly names: readonly Name[];
  readonly resource: GeneratedResource;
}

/**
 * The pieces that have names, in order, and the first piece in any case: a table without names is known to be empty.
 * The same list for the same names.
 *
 * @param table name of the table, with which the names of its pieces begin
 */
export function tablePieces(
  memos: Memos,
  table: string,
  names: readonly Name[],
  encode: (names: readonly Name[]) => Uint8Array,
): readonly GeneratedResource[] {
  return memos.weak<readonly Name[], readonly GeneratedResource[]>('name tables in pieces').get(names, () => {
    const nameOf = (index: number): string => `${table}/${index}`;
    const make = (index: number, own: readonly Name[]): GeneratedResource => ({
      name: nameOf(index),
      bytes: encode(own),
      refs: [],
    });
    const known = memos.weak<Name, { last?: Piece }>('pieces of name tables');
    return byPiece(names).flatMap((own, index) => {
      const [first] = own;
      if (first === undefined) return index === 0 ? [make(index, own)] : [];
      // A piece is found by its first name.
      const found = known.get(first, () => ({}));
      if (found.last === undefined || !areSame(found.last.names, own))
        found.last = { names: own, resource: make(index, own) };
      return [found.last.resource];
    });
  });
}

function byPiece(names: readonly Name[]): readonly (readonly Name[])[] {
  const pieces = Array.from({ length: PIECES }, (): Name[] => []);
  for (const name of names) pieces[Math.floor((name.place * PIECES) / PLACES)]?.push(name);
  return pieces;
}

function areSame(some: readonly Name[], others: readonly Name[]): boolean {
  return some.length === others.length && some.every((name, index) => name === others[index]);
}
