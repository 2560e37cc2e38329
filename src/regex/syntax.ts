/**
 * Parses regular expressions like RE2 in Envoy: decides which are accepted, and how large their programs are. Nothing
 * is compiled, and the time is linear in the length of the expression, so that documents with thousands of expressions
 * cost no more than others of their size. Envoys of different versions compare bytes or characters: an expression that
 * either of them refuses is refused. Source: https://github.com/google/re2/wiki/Syntax
 */
import { CharClass, literalSize, PERL_CLASSES, POSIX_CLASSES } from './char-class.ts';
import { alternated, captured, concatenated, EMPTY, oneOf, type Program, repeated, starred } from './program.ts';

/** Highest count of `x{count}`, and highest product of nested ones (RE2's `maximum_repeat_count`). */
const MAX_REPEATS = 1000;
/** RE2 has no such limit; it limits the recursion over programs. */
const MAX_GROUPS = 250;
/** Envoys that compare bytes refuse higher codes. */
const MAX_CODE = 0xff;
/** `.` without newlines, or with them. */
const ANY_SIZE = 9;

/** The error of an expression. Only thrown inside this folder. */
export class SyntaxProblem extends Error {}

interface Group {
  readonly isCapture: boolean;
  /** Whether letters matched either case before it. */
  readonly wasFolded: boolean;
  /** Its finished alternatives. */
  readonly alternatives: Program[];
  /** The items of the current one. */
  items: Program[];
}

const COUNTS = /\{(0|[1-9]\d*)(?:(,)(0|[1-9]\d*)?)?\}/y;
const FLAGS = /\(\?([imsU]*)(?:-([imsU]+))?([:)])/y;
const NAMED = /\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>/y;
const POSIX = /\[:(\^?)([^:\]]*):\]/y;
const UNICODE = /\\[pP](?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))/y;
const HEX = /\\x(?:\{([0-9A-Fa-f]{1,8})\}|([0-9A-Fa-f]{2}))/y;
const OCTAL = /\\(?:0[0-7]{0,2}|[1-7][0-7]{1,2})/y;

const CONTROLS: ReadonlyMap<string, number> = new Map([
  ['a', 0x07],
  ['f', 0x0c],
  ['n', 0x0a],
  ['r', 0x0d],
  ['t', 0x09],
  ['v', 0x0b],
]);

export class Reader {
  readonly #text: string;
  #at = 0;
  /** `(?i)`: letters match either case. */
  #isFolded = false;
  readonly #names = new Set<string>();
  readonly #groups: Group[] = [];
  #group: Group = this.#begin(false);

  constructor(pattern: string) {
    this.#text = pattern;
  }

  #begin(isCapture: boolean): Group {
    return { isCapture, wasFolded: this.#isFolded, alternatives: [], items: [] };
  }

  /** The program, without its begin and end. */
  read(): Program {
    let afterOperator = false;
    while (this.#at < this.#text.length) afterOperator = this.#item(afterOperator);
    if (this.#groups.length > 0) throw new SyntaxProblem('missing closing )');
    return this.#ended(this.#group);
  }

  /** Reads an item or an operator after an item; true for an operator. */
  #item(afterOperator: boolean): boolean {
    const character = this.#text[this.#at] ?? '';
    switch (character) {
      case '(':
        this.#open();
        return false;
      case ')':
        this.#close();
        return false;
      case '|':
        this.#group.alternatives.push(concatenated(this.#group.items));
        this.#group.items = [];
        break;
      case '^':
      case '$':
        this.#group.items.push(EMPTY);
        break;
      case '.':
        this.#group.items.push(oneOf(ANY_SIZE));
        break;
      case '[':
        this.#class();
        return false;
      case '\\':
        this.#escaped();
        return false;
      case '*':
      case '+':
      case '?':
        this.#at++;
        this.#repeat(afterOperator, character, (item) => starred(item, character));
        return true;
      case '{':
        if (this.#counted(afterOperator)) return true;
        this.#literal(this.#next());
        return false;
      default:
        this.#literal(this.#next());
        return false;
    }
    this.#at++;
    return false;
  }

  /** Returns the code of the current character and moves past it. */
  #next(): number {
    const code = this.#text.codePointAt(this.#at) ?? 0;
    this.#at += code > 0xffff ? 2 : 1;
    return code;
  }

  #literal(code: number): void {
    // The bytes of a character may be separate: an operator is for the last one, or for all of them.
    this.#group.items.push(oneOf(literalSize(code, this.#isFolded)));
  }

  #repeat(afterOperator: boolean, operator: string, make: (item: Program) => Program): void {
    if (this.#text[this.#at] === '?') this.#at++;
    if (afterOperator) throw new SyntaxProblem(`invalid nested repetition operator ${operator}`);
    const { items } = this.#group;
    const last = items.pop();
    if (last === undefined) throw new SyntaxProblem(`missing argument to repetition operator ${operator}`);
    items.push(make(last));
  }

  /** False if the brace is a literal. */
  #counted(afterOperator: boolean): boolean {
    const match = this.#take(COUNTS);
    if (match === undefined) return false;
    const [written, low = '', comma, high] = match;
    const least = Number(low);
    const most = comma === undefined ? least : high === undefined ? undefined : Number(high);
    if (least > MAX_REPEATS || (most ?? 0) > MAX_REPEATS || (most !== undefined && most < least))
      throw new SyntaxProblem(`invalid repeat count ${written}`);
    this.#repeat(afterOperator, written, (item) => {
      const program = repeated(item, least, most);
      if (program.repeats > MAX_REPEATS) throw new SyntaxProblem(`invalid repeat count ${written}`);
      return program;
    });
    return true;
  }

  #open(): void {
    if (this.#groups.length >= MAX_GROUPS) throw new SyntaxProblem('expression nests too deeply');
    const named = this.#take(NAMED)?.[1];
    if (named !== undefined) {
      if (this.#names.has(named)) throw new SyntaxProblem(`duplicate capture group name ${named}`);
      this.#names.add(named);
    } else if (this.#text.startsWith('(?', this.#at)) {
      this.#setFlags();
      return;
    } else this.#at++;
    this.#groups.push(this.#group);
    this.#group = this.#begin(true);
  }

  /** `(?i)` for the rest of the group, `(?i:` for a group. */
  #setFlags(): void {
    const match = this.#take(FLAGS);
    if (match === undefined) throw new SyntaxProblem('invalid or unsupported Perl syntax after (?');
    const [, on = '', off = '', end] = match;
    if (end === ':') {
      this.#groups.push(this.#group);
      this.#group = this.#begin(false);
    }
    this.#isFolded = !off.includes('i') && (on.includes('i') || this.#isFolded);
  }

  #close(): void {
    const around = this.#groups.pop();
    if (around === undefined) throw new SyntaxProblem('unexpected )');
    const { isCapture, wasFolded } = this.#group;
    const program = this.#ended(this.#group);
    this.#isFolded = wasFolded;
    this.#group = around;
    around.items.push(isCapture ? captured(program) : program);
    this.#at++;
  }

  #ended({ alternatives, items }: Group): Program {
    return alternated([...alternatives, concatenated(items)]);
  }

  #escaped(): void {
    const next = this.#text[this.#at + 1];
    if (next === 'Q') {
      this.#quoted();
      return;
    }
    if (next !== undefined && 'AbBz'.includes(next)) {
      this.#at += 2;
      this.#group.items.push(EMPTY);
      return;
    }
    const set = new CharClass(this.#isFolded);
    if (this.#addEscapedClass(set)) this.#group.items.push(oneOf(set.size(false)));
    else this.#literal(this.#code());
  }

  /** `\Q…\E`: everything in between is literal. */
  #quoted(): void {
    const end = this.#text.indexOf('\\E', this.#at + 2);
    const quoted = this.#text.slice(this.#at + 2, end < 0 ? undefined : end);
    for (const character of quoted) this.#literal(character.codePointAt(0) ?? 0);
    this.#at = end < 0 ? this.#text.length : end + 2;
  }

  /** `\d`, `\pL` and similar; false for other escapes. */
  #addEscapedClass(set: CharClass): boolean {
    const letter = this.#text[this.#at + 1] ?? '';
    const perl = PERL_CLASSES.get(letter.toLowerCase());
    if (perl !== undefined) {
      this.#at += 2;
      set.addClass(perl, letter !== letter.toLowerCase());
      return true;
    }
    if (letter !== 'p' && letter !== 'P') return false;
    const [written = '\\p', , name, initial] = this.#take(UNICODE) ?? [];
    if (!set.addUnicodeClass(name ?? initial ?? ''))
      throw new SyntaxProblem(`invalid character class range ${written}`);
    return true;
  }

  /** The character that an escape stands for. */
  #code(): number {
    const next = this.#text[this.#at + 1];
    if (next === undefined) throw new SyntaxProblem('trailing backslash at end of expression');
    const hex = this.#take(HEX);
    const octal = hex === undefined ? this.#take(OCTAL) : undefined;
    const code =
      hex !== undefined
        ? Number.parseInt(hex[1] ?? hex[2] ?? '', 16)
        : octal !== undefined
          ? Number.parseInt(octal[0].slice(1), 8)
          : CONTROLS.get(next);
    if (code !== undefined) {
      if (code > MAX_CODE) throw new SyntaxProblem('expected the character itself instead of its code');
      if (hex === undefined && octal === undefined) this.#at += 2;
      return code;
    }
    if (!/[ -/:-@[-`{-~]/.test(next)) throw new SyntaxProblem(`invalid escape sequence \\${printable(next)}`);
    this.#at += 2;
    return next.charCodeAt(0);
  }

  #class(): void {
    this.#at++;
    const isNegated = this.#text[this.#at] === '^';
    if (isNegated) this.#at++;
    const set = new CharClass(this.#isFolded);
    for (let isFirst = true; isFirst || this.#text[this.#at] !== ']'; isFirst = false) {
      if (this.#at >= this.#text.length) throw new SyntaxProblem('missing closing ]');
      if (this.#addPosixClass(set) || (this.#text[this.#at] === '\\' && this.#addEscapedClass(set))) continue;
      this.#addCharacters(set);
    }
    this.#at++;
    this.#group.items.push(oneOf(set.size(isNegated)));
  }

  #addPosixClass(set: CharClass): boolean {
    if (!this.#text.startsWith('[:', this.#at) || !this.#text.includes(':]', this.#at + 2)) return false;
    const [written = '[:', negation, name = ''] = this.#take(POSIX) ?? [];
    const ranges = POSIX_CLASSES.get(name);
    if (ranges === undefined) throw new SyntaxProblem(`invalid character class range ${printable(written)}`);
    set.addClass(ranges, negation === '^');
    return true;
  }

  /** A character, or a range of them. */
  #addCharacters(set: CharClass): void {
    const low = this.#classCharacter();
    const next = this.#text[this.#at + 1];
    if (this.#text[this.#at] !== '-' || next === undefined || next === ']') {
      set.addRange(low.code, low.code);
      return;
    }
    this.#at++;
    const high = this.#classCharacter();
    // Both as characters, and as bytes: a range of bytes is from the last byte of the first character to the first byte
    // of the second.
    if (high.code < low.code || (high.bytes[0] ?? 0) < (low.bytes.at(-1) ?? 0))
      throw new SyntaxProblem('invalid character class range');
    set.addRange(low.code, high.code);
  }

  #classCharacter(): { readonly code: number; readonly bytes: Uint8Array } {
    const character = this.#text[this.#at];
    if (character === undefined) throw new SyntaxProblem('missing closing ]');
    if (character === '\\') {
      const escaped = this.#code();
      return { code: escaped, bytes: Uint8Array.of(escaped) };
    }
    const code = this.#next();
    return { code, bytes: Buffer.from(String.fromCodePoint(code), 'utf8') };
  }

  /** The match of a pattern at the current position, which moves past it. */
  #take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (match === null) return undefined;
    this.#at = pattern.lastIndex;
    return match;
  }
}

function printable(text: string): string {
  return /^[\x20-\x7e]*$/.test(text) ? text : '…';
}
