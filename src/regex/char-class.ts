/**
 * Character classes, and how many instructions RE2 needs for them at most. Envoys compare bytes (1.40: RE2's Latin-1)
 * or characters (1.36: UTF-8). A range of characters beyond ASCII is several sequences of bytes, so the second form is
 * the larger one.
 */

const ASCII = 128;
/** The number of 32-bit words of a set of ASCII characters. */
const WORDS = 4;
const WORD_BITS = 32;
/** The letters in the words of the upper case and of the lower case. */
const [UPPER_WORD, LOWER_WORD, LETTERS] = [2, 3, 0x07fffffe];

/** The size of any range of characters beyond ASCII: sequences of two, three and four bytes. */
const WIDE_RANGE_SIZE = 24;
/** The size of all characters beyond ASCII. */
const ALL_WIDE_SIZE = 8;
/** The maximum size of a Unicode class or its complement: that of `\pL`. */
const UNICODE_CLASS_SIZE = 1250;
/** The additional size of case-insensitive letters: the Kelvin sign matches k, and the long s matches s. */
const FOLDED_SIZE = 48;
/** The same for ranges beyond ASCII, whose other cases may be anywhere. */
const FOLDED_WIDE_SIZE = 640;

type Ranges = readonly (readonly [low: number, high: number])[];

/** The characters of a class. */
export class CharClass {
  readonly #ascii = new Uint32Array(WORDS);
  readonly #isFolded: boolean;
  /** The number of instructions for characters beyond ASCII. */
  #wide = 0;
  /** Whether it has a class of everything but some ASCII characters. */
  #hasAllWide = false;

  /**
   * @param isFolded whether letters match either case
   */
  constructor(isFolded: boolean) {
    this.#isFolded = isFolded;
  }

  addRange(low: number, high: number): void {
    if (low < ASCII) setRange(this.#ascii, low, Math.min(high, ASCII - 1));
    if (high >= ASCII) this.#wide += WIDE_RANGE_SIZE + (this.#isFolded ? FOLDED_WIDE_SIZE : 0);
  }

  /** Adds a class of ASCII characters, or with `isNegated` everything else. */
  addClass(ascii: Uint32Array, isNegated: boolean): void {
    for (let word = 0; word < WORDS; word++) {
      const bits = ascii[word] ?? 0;
      this.#ascii[word] = (this.#ascii[word] ?? 0) | (isNegated ? ~bits : bits);
    }
    if (isNegated) this.#hasAllWide = true;
  }

  /** Adds a Unicode class or its complement; false when there is none of this name. */
  addUnicodeClass(name: string): boolean {
    this.#wide += UNICODE_CLASS_SIZE;
    return UNICODE_CLASSES.has(name);
  }

  /** Number of instructions for it, or with `isNegated` for everything else, at most. */
  size(isNegated: boolean): number {
    const [upper = 0, lower = 0] = [this.#ascii[UPPER_WORD], this.#ascii[LOWER_WORD]];
    const letters = (upper | lower) & LETTERS;
    if (this.#isFolded) this.#ascii.set([upper | letters, lower | letters], UPPER_WORD);
    const isFolded = this.#isFolded && (isNegated || this.#hasAllWide || letters !== 0);
    return (
      rangesOf(this.#ascii, isNegated) +
      this.#wide +
      (isNegated || this.#hasAllWide ? ALL_WIDE_SIZE : 0) +
      (isNegated && this.#wide > 0 ? WIDE_RANGE_SIZE : 0) +
      (isFolded ? FOLDED_SIZE : 0)
    );
  }
}

function setRange(ascii: Uint32Array, low: number, high: number): void {
  for (let word = 0; word < WORDS; word++) {
    const first = Math.max(0, low - word * WORD_BITS);
    const last = Math.min(WORD_BITS - 1, high - word * WORD_BITS);
    if (first > last) continue;
    // Shifts by 32 bits do nothing: hence two steps.
    const mask = ((0xffffffff >>> (WORD_BITS - 1 - (last - first))) << first) >>> 0;
    ascii[word] = (ascii[word] ?? 0) | mask;
  }
}

/** Number of ranges of a set of ASCII characters, or of its complement. */
function rangesOf(ascii: Uint32Array, isNegated: boolean): number {
  let ranges = 0;
  let before = 0;
  for (const bits of ascii) {
    const members = isNegated ? ~bits : bits;
    for (let begins = members & ~((members << 1) | before); begins !== 0; begins &= begins - 1) ranges++;
    before = members >>> (WORD_BITS - 1);
  }
  return ranges;
}

export function isLetter(code: number): boolean {
  return (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
}

/** Number of instructions for one character, at most. */
export function literalSize(code: number, isFolded: boolean): number {
  const bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  if (!isFolded) return bytes;
  return code < ASCII ? (isLetter(code) ? 4 : 1) : 3 * bytes + 3;
}

function asSets(classes: readonly (readonly [name: string, ranges: Ranges])[]): Map<string, Uint32Array> {
  return new Map(
    classes.map(([name, ranges]) => {
      const ascii = new Uint32Array(WORDS);
      for (const [low, high] of ranges) setRange(ascii, low, high);
      return [name, ascii];
    }),
  );
}

const DIGITS: Ranges = [[0x30, 0x39]];
const UPPER: Ranges = [[0x41, 0x5a]];
const LOWER: Ranges = [[0x61, 0x7a]];
const BLANK: Ranges = [[0x20, 0x20]];
const ALPHA = [...UPPER, ...LOWER];
const ALNUM = [...DIGITS, ...ALPHA];
const WORD: Ranges = [...ALNUM, [0x5f, 0x5f]];

/** `\d`, `\s`, `\w` by letter. */
export const PERL_CLASSES: ReadonlyMap<string, Uint32Array> = asSets([
  ['d', DIGITS],
  ['s', [[0x09, 0x0a], [0x0c, 0x0d], ...BLANK]],
  ['w', WORD],
]);

/** `[:alpha:]` and similar classes by name. */
export const POSIX_CLASSES: ReadonlyMap<string, Uint32Array> = asSets([
  ['alnum', ALNUM],
  ['alpha', ALPHA],
  ['ascii', [[0x00, 0x7f]]],
  ['blank', [[0x09, 0x09], ...BLANK]],
  [
    'cntrl',
    [
      [0x00, 0x1f],
      [0x7f, 0x7f],
    ],
  ],
  ['digit', DIGITS],
  ['graph', [[0x21, 0x7e]]],
  ['lower', LOWER],
  ['print', [[0x20, 0x7e]]],
  [
    'punct',
    [
      [0x21, 0x2f],
      [0x3a, 0x40],
      [0x5b, 0x60],
      [0x7b, 0x7e],
    ],
  ],
  ['space', [[0x09, 0x0d], ...BLANK]],
  ['upper', UPPER],
  ['word', WORD],
  ['xdigit', [...DIGITS, [0x41, 0x46], [0x61, 0x66]]],
]);

/**
 * Unicode classes (`\pL`, `\p{Greek}`) that all supported Envoys have: the general categories and the scripts of living
 * languages. Others depend on the version of Unicode.
 */
const UNICODE_CLASSES: ReadonlySet<string> = new Set(
  (
    'Any C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs ' +
    'Arabic Armenian Bengali Bopomofo Cherokee Common Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi ' +
    'Han Hangul Hebrew Hiragana Inherited Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala ' +
    'Syriac Tamil Telugu Thaana Thai Tibetan Yi'
  ).split(' '),
);
