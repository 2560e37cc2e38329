/**
 * A fast parser of the plain part of YAML: block mappings and sequences of one-line values, as tools write them. A
 * directory of thousands of files is read at start, and a complete YAML parser takes many times as long for files that
 * are mostly like this. It leaves everything ambiguous to the complete parser, and reports no errors itself.
 */

interface Line {
  /** Counted from 0. */
  readonly number: number;
  readonly indent: number;
  readonly text: string;
}

/** The parsed value and the line (from 0) on which it begins; `undefined` for anything beyond the plain part. */
export type PlainYaml = { readonly value: unknown; readonly line: number } | undefined;

/** Thrown to leave the document to the complete parser. */
const NOT_PLAIN = Symbol('not plain');

const [SPACE, DASH, HASH, COLON, COMMA] = [0x20, 0x2d, 0x23, 0x3a, 0x2c];
const [DOUBLE_QUOTE, SINGLE_QUOTE] = [0x22, 0x27];
const [OPEN_MAP, CLOSE_MAP, OPEN_LIST, CLOSE_LIST] = [0x7b, 0x7d, 0x5b, 0x5d];
/** The one name that an object does not accept as a key. */
const PROTOTYPE = '__proto__';

const OTHER_CHARACTERS = /[^\x20-\x7e\n]/;
const MAX_DEPTH = 64;
/** A key as tools write it, without quotes. */
const NAME = /^(?:[A-Za-z_][\w./-]*|0|[1-9]\d{0,8})$/;
const QUOTED_KEY = /^("[^"\\]*"|'[^']*'):(?: +|$)/;
const QUOTED = /^(?:"[^"\\]*"|'[^']*')$/;
/** Beginnings of anything but a plain scalar. */
const INDICATOR = /^[?:,[\]{}#&*!|>'"%@`~<=]|^-(?: |$)/;
const INTEGER = /^-?(?:0|[1-9]\d{0,14})$/;
/**
 * All other scalars that a YAML schema may interpret as a number, boolean, null or merge key. Digits with two or more
 * dots are strings in all schemas.
 */
const AMBIGUOUS =
  /^(?!\d+(?:\.\d+){2,}$)(?:[-+]?[\d.][\d._]*(?:[eE][-+]?\d+)?|[-+]?0[xob].*|[-+]?\.(?:inf|nan)|true|false|null|yes|no|on|off|y|n)$/i;
/** A word that begins with a letter is ambiguous only when it is as short as `false`. */
const WORD = /^[A-Za-z][\w./-]*$/;
const LONGEST_AMBIGUOUS_WORD = 5;

/**
 * Keys that were checked and are plain, with their names; the same few are in every file. Bounded: labels are keys too.
 */
const plainNames = new Map<string, string>();
const MAX_PLAIN_NAMES = 2000;

export function readPlainYaml(text: string): PlainYaml {
  if (OTHER_CHARACTERS.test(text)) return undefined;
  const lines = linesOf(text);
  const first = lines?.[0];
  if (lines === undefined || first === undefined) return undefined;
  try {
    return { value: readAll(lines, first.indent), line: first.number };
  } catch (reason) {
    if (reason === NOT_PLAIN) return undefined;
    throw reason;
  }
}

/** The lines with content; `undefined` when there are markers or directives beyond one `---` at the beginning. */
function linesOf(text: string): Line[] | undefined {
  const lines: Line[] = [];
  let marked = false;
  for (let from = 0, number = 0; from < text.length; number++) {
    const newline = text.indexOf('\n', from);
    const to = newline < 0 ? text.length : newline;
    let start = from;
    while (start < to && text.charCodeAt(start) === SPACE) start++;
    let end = to;
    while (end > start && text.charCodeAt(end - 1) === SPACE) end--;
    const begin = from;
    from = to + 1;
    if (start === end || text.charCodeAt(start) === HASH) continue;
    if (start === begin && isMarker(text, start)) {
      if (marked || lines.length > 0 || end !== start + 3 || !text.startsWith('---', start)) return undefined;
      marked = true;
      continue;
    }
    lines.push({ number, indent: start - begin, text: text.slice(start, end) });
  }
  return lines;
}

/** Whether a line may be a document marker or a directive. */
function isMarker(text: string, start: number): boolean {
  return text.startsWith('---', start) || text.startsWith('...', start) || text.startsWith('%', start);
}

/** The lines of a document and the current line. */
interface Reading {
  readonly lines: Line[];
  at: number;
}

function readAll(lines: Line[], indent: number): unknown {
  const reading = { lines, at: 0 };
  const value = readNode(reading, indent, 0);
  if (reading.at < lines.length) throw NOT_PLAIN;
  return value;
}

function readNode(reading: Reading, indent: number, depth: number): unknown {
  const line = reading.lines[reading.at];
  if (line === undefined || line.indent !== indent || depth > MAX_DEPTH) throw NOT_PLAIN;
  return isItem(line.text) ? readSequence(reading, indent, depth) : readMapping(reading, indent, depth);
}

function readSequence(reading: Reading, indent: number, depth: number): unknown[] {
  const { lines } = reading;
  const items: unknown[] = [];
  let line = lines[reading.at];
  for (; line !== undefined && line.indent === indent && isItem(line.text); line = lines[reading.at]) {
    const rest = line.text.slice(1).trimStart();
    const column = indent + line.text.length - rest.length;
    if (rest === '') {
      reading.at++;
      const next = lines[reading.at];
      if (next === undefined || next.indent <= indent) throw NOT_PLAIN;
      items.push(readNode(reading, next.indent, depth + 1));
    } else if (isItem(rest) || keyLength(rest) > 0) {
      // The item's first key is on the dash's line: read it as a line of its own at the column where it begins.
      lines[reading.at] = { number: line.number, indent: column, text: rest };
      items.push(readNode(reading, column, depth + 1));
    } else {
      reading.at++;
      items.push(scalar(rest));
    }
  }
  // A block ends at a less indented line; a deeper line would be the continuation of a scalar.
  if (line !== undefined && line.indent > indent) throw NOT_PLAIN;
  return items;
}

function readMapping(reading: Reading, indent: number, depth: number): Record<string, unknown> {
  const { lines } = reading;
  const entries: Record<string, unknown> = {};
  let line = lines[reading.at];
  for (; line !== undefined && line.indent === indent && !isItem(line.text); line = lines[reading.at]) {
    const { text } = line;
    const end = keyLength(text);
    const name = plainKey(text.slice(0, end));
    if (name === undefined || Object.hasOwn(entries, name)) throw NOT_PLAIN;
    reading.at++;
    entries[name] =
      end + 1 === text.length ? valueBelow(reading, indent, depth) : scalar(text.slice(end + 1).trimStart());
  }
  if (line !== undefined && line.indent > indent) throw NOT_PLAIN;
  return entries;
}

/** A value on the lines below its key: deeper, or a sequence at the key's own indentation, or nothing. */
function valueBelow(reading: Reading, indent: number, depth: number): unknown {
  const next = reading.lines[reading.at];
  if (next === undefined || next.indent < indent) return null;
  if (next.indent > indent) return readNode(reading, next.indent, depth + 1);
  return isItem(next.text) ? readSequence(reading, indent, depth + 1) : null;
}

function isItem(text: string): boolean {
  return text.charCodeAt(0) === DASH && (text.length === 1 || text.charCodeAt(1) === SPACE);
}

/** Length of the key at the beginning of a text, up to its colon; 0 when there is none. */
function keyLength(text: string): number {
  const first = text.charCodeAt(0);
  if (isQuote(first)) return QUOTED_KEY.exec(text)?.[1]?.length ?? 0;
  if (!isWordCharacter(first)) return 0;
  const end = text.indexOf(':');
  return end > 0 && (end + 1 === text.length || text.charCodeAt(end + 1) === SPACE) ? end : 0;
}

/** The name of a key, without quotes; `undefined` if it is ambiguous. */
function plainKey(key: string): string | undefined {
  const known = plainNames.get(key);
  if (known !== undefined) return known;
  if (key === '') return undefined;
  const name = unquoted(key);
  if (name === PROTOTYPE) return undefined;
  if (name === key && (!NAME.test(key) || (!INTEGER.test(key) && AMBIGUOUS.test(key)))) return undefined;
  if (plainNames.size < MAX_PLAIN_NAMES) plainNames.set(key, name);
  return name;
}

function isQuote(code: number): boolean {
  return code === DOUBLE_QUOTE || code === SINGLE_QUOTE;
}

function unquoted(text: string): string {
  return isQuote(text.charCodeAt(0)) ? text.slice(1, -1) : text;
}

function isWordCharacter(code: number): boolean {
  // Digits, letters of either case, the underscore.
  return (
    (code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a) || code === 0x5f
  );
}

function scalar(text: string): unknown {
  const first = text.charCodeAt(0);
  if (isWordCharacter(first)) {
    if (WORD.test(text)) return word(text);
    if (INTEGER.test(text)) return Number(text);
  } else {
    if (isQuote(first) && QUOTED.test(text)) return text.slice(1, -1);
    if (first === OPEN_MAP || first === OPEN_LIST) return readFlow(text);
    if (INTEGER.test(text)) return text === '-0' ? -0 : Number(text);
    if (INDICATOR.test(text)) throw NOT_PLAIN;
  }
  if (text.includes(' #') || text.includes(': ') || text.endsWith(':') || AMBIGUOUS.test(text)) throw NOT_PLAIN;
  return text;
}

function word(text: string): unknown {
  if (text.length > LONGEST_AMBIGUOUS_WORD) return text;
  if (text === 'true') return true;
  if (text === 'false') return false;
  if (AMBIGUOUS.test(text)) throw NOT_PLAIN;
  return text;
}

/** Scalars and keys in a flow collection: a scalar has none of the ambiguous characters. */
const FLOW_WORD = /"[^"\\]*"|'[^']*'|[\w./-]+/y;

/** A text and the current position in it. */
interface Flow {
  readonly text: string;
  at: number;
}

/** A one-line `{a: b}` or `[a, b]`. */
function readFlow(text: string): unknown {
  const flow = { text, at: 0 };
  const whole = flowValue(flow, 0);
  if (flow.at < text.length) throw NOT_PLAIN;
  return whole;
}

function flowValue(flow: Flow, depth: number): unknown {
  if (depth > MAX_DEPTH) throw NOT_PLAIN;
  if (took(flow, OPEN_MAP)) return flowMap(flow, depth);
  if (took(flow, OPEN_LIST)) return flowList(flow, depth);
  const taken = nextWord(flow);
  skipSpaces(flow);
  return scalar(taken);
}

function flowMap(flow: Flow, depth: number): Record<string, unknown> {
  const entries: Record<string, unknown> = {};
  if (took(flow, CLOSE_MAP)) return entries;
  for (;;) {
    const name = plainKey(nextWord(flow));
    // Only a colon with a space after it ends a key; without one the complete parser decides what it means.
    if (flow.text.charCodeAt(flow.at) !== COLON || flow.text.charCodeAt(flow.at + 1) !== SPACE) throw NOT_PLAIN;
    if (name === undefined || Object.hasOwn(entries, name)) throw NOT_PLAIN;
    flow.at++;
    skipSpaces(flow);
    entries[name] = flowValue(flow, depth + 1);
    if (took(flow, CLOSE_MAP)) return entries;
    if (!took(flow, COMMA)) throw NOT_PLAIN;
  }
}

function flowList(flow: Flow, depth: number): unknown[] {
  const items: unknown[] = [];
  if (took(flow, CLOSE_LIST)) return items;
  for (;;) {
    items.push(flowValue(flow, depth + 1));
    if (took(flow, CLOSE_LIST)) return items;
    if (!took(flow, COMMA)) throw NOT_PLAIN;
  }
}

function nextWord(flow: Flow): string {
  FLOW_WORD.lastIndex = flow.at;
  if (!FLOW_WORD.test(flow.text)) throw NOT_PLAIN;
  const taken = flow.text.slice(flow.at, FLOW_WORD.lastIndex);
  flow.at = FLOW_WORD.lastIndex;
  return taken;
}

/** Skips a bracket or comma and the spaces after it, if it is there. */
function took(flow: Flow, code: number): boolean {
  if (flow.text.charCodeAt(flow.at) !== code) return false;
  flow.at++;
  skipSpaces(flow);
  return true;
}

function skipSpaces(flow: Flow): void {
  while (flow.text.charCodeAt(flow.at) === SPACE) flow.at++;
}
