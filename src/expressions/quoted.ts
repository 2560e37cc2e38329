/** Reads string literals of both syntaxes. */
import { expressionError } from './nodes.ts';

/** Whose syntax: CEXL has that of Go expressions (https://go.dev/ref/spec#Lexical_elements), CEL its own. */
export type Syntax = 'CEXL' | 'CEL';

/** Escapes of one character that Go (https://go.dev/ref/spec#Rune_literals) and CEL share. */
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['a', '\x07'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
  ['v', '\v'],
  ['\\', '\\'],
  ['"', '"'],
  ["'", "'"],
]);
/** In CEL only. */
const CEL_ESCAPES: ReadonlySet<string> = new Set(['`', '?']);
const HEX_DIGITS: ReadonlyMap<string, number> = new Map([
  ['x', 2],
  ['u', 4],
  ['U', 8],
]);

interface Quoted {
  readonly value: string;
  readonly end: number;
}

/** The literal at an offset; undefined if there is none. Throws CtlError `invalid_argument`. */
export function readQuoted(text: string, at: number, syntax: Syntax): Quoted | undefined {
  const opening = text[at];
  if (syntax === 'CEXL') {
    if (opening === '`') return readRaw(text, at, at + 1, '`');
    if (opening === '"') return readEscaped(text, at, at + 1, '"', syntax);
    if (opening !== "'") return undefined;
    const char = readEscaped(text, at, at + 1, "'", syntax);
    if ([...char.value].length !== 1) throw expressionError(at, 'expected one character in single quotes');
    return char;
  }
  const raw = (opening === 'r' || opening === 'R') && (text[at + 1] === '"' || text[at + 1] === "'");
  const start = raw ? at + 1 : at;
  const quote = text[start];
  if (quote !== '"' && quote !== "'") return undefined;
  const delimiter = text.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote;
  const from = start + delimiter.length;
  return raw ? readRaw(text, at, from, delimiter) : readEscaped(text, at, from, delimiter, syntax);
}

function readRaw(text: string, at: number, from: number, delimiter: string): Quoted {
  const end = text.indexOf(delimiter, from);
  if (end < 0) throw expressionError(at, 'expected the end of the string');
  const value = text.slice(from, end);
  if (delimiter.length === 1 && delimiter !== '`' && value.includes('\n')) {
    throw expressionError(at, 'expected the end of the string before the end of the line');
  }
  return { value: value.replaceAll('\r', ''), end: end + delimiter.length };
}

function readEscaped(text: string, at: number, from: number, delimiter: string, syntax: Syntax): Quoted {
  let value = '';
  let next = from;
  while (!text.startsWith(delimiter, next)) {
    const char = text[next];
    if (char === undefined || (char === '\n' && delimiter.length === 1)) {
      throw expressionError(at, 'expected the end of the string');
    }
    if (char === '\\') {
      const escaped = readEscape(text, next, syntax);
      value += escaped.value;
      next = escaped.end;
    } else {
      value += char;
      next++;
    }
  }
  return { value, end: next + delimiter.length };
}

function readEscape(text: string, at: number, syntax: Syntax): Quoted {
  const char = text[at + 1] ?? '';
  const known = ESCAPES.get(char) ?? (syntax === 'CEL' && CEL_ESCAPES.has(char) ? char : undefined);
  if (known !== undefined) return { value: known, end: at + 2 };
  const octal = /^[0-3][0-7]{2}/.exec(text.slice(at + 1, at + 4))?.[0];
  if (octal !== undefined) return { value: String.fromCodePoint(Number.parseInt(octal, 8)), end: at + 4 };
  const digits = HEX_DIGITS.get(char);
  if (digits === undefined) throw expressionError(at, `unknown escape sequence ${JSON.stringify(`\\${char}`)}`);
  const end = at + 2 + digits;
  const hex = text.slice(at + 2, end);
  const code = /^[0-9a-fA-F]+$/.test(hex) && hex.length === digits ? Number.parseInt(hex, 16) : Number.NaN;
  if (!(code <= 0x10ffff) || (code >= 0xd800 && code <= 0xdfff)) {
    throw expressionError(at, `expected ${digits} hexadecimal digits of a Unicode character after "\\${char}"`);
  }
  return { value: String.fromCodePoint(code), end };
}
