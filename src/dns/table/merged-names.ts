/**
 * Names that arrive in pieces: one index over all pieces, in which a change of a few names is a small change. Whatever
 * changes together is seen together, and queries are answered meanwhile with what was known before.
 */
import {
  buildNameTable,
  type CompiledNames,
  type NameEntries,
  type NameId,
  NameSlices,
  type NameTable,
  toWireName,
} from './name-table.ts';

/** A change of pieces. */
export interface PieceChanges {
  /** The names of pieces that are set, by the names of the pieces. */
  readonly set: ReadonlyMap<string, NameEntries>;
  readonly removed: Iterable<string>;
  /** Whether pieces that are not in `set` are removed. */
  readonly whole: boolean;
}

/** An id is that of the name in its piece, times this, plus the index of the piece. There may not be more pieces. */
const MAX_PIECES = 0x4000;
/** A change of more names is made to a new index, in slices: to the old one, it would delay queries. */
const MAX_PATCHED = 2000;

const NO_ADDRESSES = new Uint8Array(0);

interface Index {
  readonly ids: Map<string, NameId>;
  /** Undefined: free for another piece. */
  readonly pieces: (CompiledNames | undefined)[];
  /** Indexes in `pieces`, by the names of the pieces. */
  readonly places: Map<string, number>;
}

/** Each name is expected in one piece; of two pieces with the same name, the one that came later has it. */
export class MergedNames implements NameTable {
  #index: Index = { ids: new Map(), pieces: [], places: new Map() };
  #sums = { size: 0, invalid: 0, wildcards: 0 };

  get size(): number {
    return this.#index.ids.size;
  }

  get invalid(): number {
    return this.#sums.invalid;
  }

  get wildcards(): number {
    return this.#sums.wildcards;
  }

  find(name: string): NameId | undefined {
    return this.#index.ids.get(toWireName(name));
  }

  findWire(wireName: string): NameId | undefined {
    return this.#index.ids.get(wireName);
  }

  addresses(id: NameId, family: 4 | 6): Uint8Array {
    const piece = this.#index.pieces[id % MAX_PIECES];
    return piece?.addresses(Math.floor(id / MAX_PIECES), family) ?? NO_ADDRESSES;
  }

  /** Applies changes as soon as they are compiled. To be called for one change after the other. */
  async update({ set, removed, whole }: PieceChanges): Promise<void> {
    const slices = new NameSlices();
    const built = new Map<string, CompiledNames>();
    for (const [name, entries] of set) built.set(name, await buildNameTable(entries, slices));
    const gone = new Set(whole ? this.#index.places.keys() : removed);
    if (this.#isSmall(built, gone)) patch(this.#index, built, gone);
    else this.#index = await indexOf(remaining(this.#index, gone, built), slices);
    const sum = (pick: (piece: CompiledNames) => number): number =>
      this.#index.pieces.reduce((total, piece) => total + (piece === undefined ? 0 : pick(piece)), 0);
    this.#sums = {
      size: sum((piece) => piece.size),
      invalid: sum((piece) => piece.invalid),
      wildcards: sum((piece) => piece.wildcards),
    };
  }

  /** A name of two pieces must not vanish with one of them: these are indexed anew. */
  #isSmall(built: ReadonlyMap<string, CompiledNames>, gone: ReadonlySet<string>): boolean {
    const { places, pieces } = this.#index;
    if (this.#sums.size !== this.size) return false;
    let names = 0;
    for (const [, piece] of built) names += piece.size;
    for (const name of new Set([...built.keys(), ...gone])) names += pieces[places.get(name) ?? -1]?.size ?? 0;
    return names <= MAX_PATCHED;
  }
}

/** The pieces after a change, in the order in which they came. */
function remaining(
  { places, pieces }: Index,
  gone: ReadonlySet<string>,
  built: ReadonlyMap<string, CompiledNames>,
): Map<string, CompiledNames> {
  const kept = new Map<string, CompiledNames>();
  for (const [name, place] of places) {
    const piece = pieces[place];
    if (piece !== undefined && !gone.has(name) && !built.has(name)) kept.set(name, piece);
  }
  for (const [name, piece] of built) kept.set(name, piece);
  return kept;
}

async function indexOf(pieces: ReadonlyMap<string, CompiledNames>, slices: NameSlices): Promise<Index> {
  const made: Index = { ids: new Map(), pieces: [], places: new Map() };
  for (const [name, piece] of pieces) {
    const place = made.pieces.push(piece) - 1;
    made.places.set(name, place);
    for (const wireName of piece.wireNames()) {
      made.ids.set(wireName, idIn(piece, wireName, place));
      const pause = slices.next();
      if (pause !== undefined) await pause;
    }
  }
  return made;
}

function patch(index: Index, built: ReadonlyMap<string, CompiledNames>, gone: ReadonlySet<string>): void {
  const { ids, pieces, places } = index;
  for (const name of new Set([...built.keys(), ...gone])) {
    const place = places.get(name);
    if (place === undefined) continue;
    for (const wireName of pieces[place]?.wireNames() ?? []) ids.delete(wireName);
    pieces[place] = undefined;
    // A piece that is set again comes later than the others.
    places.delete(name);
  }
  for (const [name, piece] of built) {
    const free = pieces.indexOf(undefined);
    const place = free < 0 ? pieces.length : free;
    pieces[place] = piece;
    places.set(name, place);
    for (const wireName of piece.wireNames()) ids.set(wireName, idIn(piece, wireName, place));
  }
}

function idIn(piece: CompiledNames, wireName: string, place: number): NameId {
  return (piece.findWire(wireName) ?? 0) * MAX_PIECES + place;
}
