/**
 * The maximum size of the program that RE2 compiles an expression to, which determines the time and memory of an
 * expression in Envoy; it multiplies with nested repetitions (`(\w{30}){30}`). Counted as RE2 counts after its last
 * pass (`Prog::Flatten`): one instruction for each range of bytes, two for a group, about one for an operator.
 */

export interface Program {
  readonly size: number;
  /** Whether it matches an empty string. */
  readonly isNullable: boolean;
  /** The highest product of nested counted repetitions. */
  readonly repeats: number;
}

/**
 * The instructions of every program: begin and end, the search for the first match, and the entry to the first item.
 */
export const BASE_SIZE = 6;

export const EMPTY: Program = { size: 1, isNullable: true, repeats: 1 };

/** A program for this number of byte ranges. */
export function oneOf(ranges: number): Program {
  return { size: Math.max(1, ranges), isNullable: false, repeats: 1 };
}

export function concatenated(items: readonly Program[]): Program {
  const [first, ...others] = items;
  if (first === undefined) return EMPTY;
  return others.reduce(
    (all, { size, isNullable, repeats }) => ({
      size: all.size + size,
      isNullable: all.isNullable && isNullable,
      repeats: Math.max(all.repeats, repeats),
    }),
    first,
  );
}

export function alternated(items: readonly Program[]): Program {
  const [only] = items;
  if (only !== undefined && items.length === 1) return only;
  return {
    size: items.reduce((sum, { size }) => sum + size + 1, 0),
    isNullable: items.some(({ isNullable }) => isNullable),
    repeats: Math.max(...items.map(({ repeats }) => repeats)),
  };
}

export function captured(program: Program): Program {
  return { ...program, size: program.size + 2 };
}

/** `x*`, `x+`, `x?`; loops over items that may be empty need more instructions. */
export function starred({ size, isNullable, repeats }: Program, operator: string): Program {
  const more = operator === '?' ? 1 : isNullable ? 4 : 2;
  return { size: size + more, isNullable: isNullable || operator !== '+', repeats };
}

/** `x{least,most}`; undefined: any number. The program has copies of x; optional copies are nested. */
export function repeated(program: Program, least: number, most: number | undefined): Program {
  const { size, isNullable, repeats } = program;
  const copies = most ?? least;
  const product = repeats * Math.max(1, copies);
  if (most === undefined) {
    const last = starred(program, least === 0 ? '*' : '+');
    return { size: size * Math.max(0, least - 1) + last.size, isNullable: last.isNullable, repeats: product };
  }
  return {
    // The last byte of a character of several bytes may be repeated alone, or left out.
    size: Math.max(size, size * most + 2 * (most - least)),
    isNullable: isNullable || least === 0,
    repeats: product,
  };
}
