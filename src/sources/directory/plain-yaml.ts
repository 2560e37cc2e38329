/**
 * A fast reader of the plain part of YAML: block mappings and sequences of one-line values, as tools write them. It exists
 * because a directory of thousands of files is read at start, and a complete YAML parser takes many times as long for what
 * is mostly this. Whatever it is not sure of, it leaves to the complete parser: it never refuses, and never guesses.
 */

interface Line {
  readonly indent: number;
  readonly text: string;
}

/** What was read, and on which line (from 0) it begins; `undefined` for anything beyond the plain part. */
export type PlainYaml = { readonly value: unknown; readonly line: number } | undefined;

/** Thrown inside to give up; never leaves this file. */
const NOT_PLAIN = Symbol('not plain');

const OTHER_CHARACTERS = /[^\x20-\x7e\n]/;
const MAX_DEPTH = 64;
const KEY = /^([A-Za-z_][\w./-]*|"[^"\\]*"|'[^']*'|0|[1-9]\d{0,8}):(?: +|$)/;
/** Beginnings of anything but a plain scalar. */
const INDICATOR = /^[?:,[\]{}#&*!|>'"%@`~<=]|^-(?: |$)/;
const INTEGER = /^-?(?:0|[1-9]\d{0,14})$/;
/** Everything else that some schema of YAML may take for a number, a boolean, a null or a merge key. Digits with two dots or more are none. */
const AMBIGUOUS =
  /^(?!\d+(?:\.\d+){2,}$)(?:[-+]?[\d.][\d._]*(?:[eE][-+]?\d+)?|[-+]?0[xob].*|[-+]?\.(?:inf|nan)|true|false|null|yes|no|on|off|y|n)$/i;

export function readPlainYaml(text: string): PlainYaml {
  if (OTHER_CHARACTERS.test(text)) return undefined;
  const lines: Line[] = [];
  let first = 0;
  let marked = false;
  for (const [number, raw] of text.split('\n').entries()) {
    const content = raw.trim();
    if (content === '' || content.startsWith('#')) continue;
    if (raw.startsWith('---') && !marked && lines.length === 0 && content === '---') {
      marked = true;
      continue;
    }
    if (raw.startsWith('---') || raw.startsWith('...') || raw.startsWith('%')) return undefined;
    if (lines.length === 0) first = number;
    lines.push({ indent: raw.length - raw.trimStart().length, text: content });
  }
  if (lines.length === 0) return undefined;
  try {
    return { value: readAll(lines), line: first };
  } catch (reason) {
    if (reason === NOT_PLAIN) return undefined;
    throw reason;
  }
}

function readAll(lines: Line[]): unknown {
  let at = 0;

  const node = (indent: number, depth: number): unknown => {
    const line = lines[at];
    if (line === undefined || line.indent !== indent || depth > MAX_DEPTH) throw NOT_PLAIN;
    return isItem(line) ? sequence(indent, depth) : mapping(indent, depth);
  };

  const sequence = (indent: number, depth: number): unknown[] => {
    const items: unknown[] = [];
    for (let line = lines[at]; line !== undefined && line.indent === indent && isItem(line); line = lines[at]) {
      const rest = line.text.slice(1).trimStart();
      const column = indent + line.text.length - rest.length;
      if (rest === '') {
        at++;
        const next = lines[at];
        if (next === undefined || next.indent <= indent) throw NOT_PLAIN;
        items.push(node(next.indent, depth + 1));
      } else if (KEY.test(rest) || isItem({ indent, text: rest })) {
        // The item's first key stands on the dash's line: read it as a line of its own at the column where it begins.
        lines[at] = { indent: column, text: rest };
        items.push(node(column, depth + 1));
      } else {
        at++;
        items.push(scalar(rest));
      }
    }
    endOfBlock(indent);
    return items;
  };

  const mapping = (indent: number, depth: number): Record<string, unknown> => {
    const entries: Record<string, unknown> = {};
    for (let line = lines[at]; line !== undefined && line.indent === indent && !isItem(line); line = lines[at]) {
      const match = KEY.exec(line.text);
      const name = unquoted(match?.[1]);
      if (match === null || name === '__proto__' || Object.hasOwn(entries, name)) throw NOT_PLAIN;
      if (match[1] === name && !INTEGER.test(name) && AMBIGUOUS.test(name)) throw NOT_PLAIN;
      const rest = line.text.slice(match[0].length);
      at++;
      entries[name] = rest === '' ? valueBelow(indent, depth) : scalar(rest);
    }
    endOfBlock(indent);
    return entries;
  };

  /** A value on the lines below its key: deeper, or a sequence at the key's own indentation, or nothing. */
  const valueBelow = (indent: number, depth: number): unknown => {
    const next = lines[at];
    if (next === undefined || next.indent < indent) return null;
    if (next.indent > indent) return node(next.indent, depth + 1);
    return isItem(next) ? sequence(indent, depth + 1) : null;
  };

  /** A block ends where something less indented follows; a deeper line would be the continuation of a scalar. */
  const endOfBlock = (indent: number): void => {
    const next = lines[at];
    if (next !== undefined && next.indent > indent) throw NOT_PLAIN;
  };

  const value = node(lines[0]?.indent ?? 0, 0);
  if (at < lines.length) throw NOT_PLAIN;
  return value;
}

function isItem(line: Line): boolean {
  return line.text === '-' || line.text.startsWith('- ');
}

function unquoted(text: string | undefined): string {
  const quote = text?.[0];
  return text === undefined ? '' : quote === '"' || quote === "'" ? text.slice(1, -1) : text;
}

function scalar(text: string): unknown {
  if (/^"[^"\\]*"$/.test(text) || /^'[^']*'$/.test(text)) return text.slice(1, -1);
  if (text.startsWith('{') || text.startsWith('[')) return readFlow(text);
  if (INDICATOR.test(text) || text.includes(' #') || text.includes(': ') || text.endsWith(':')) throw NOT_PLAIN;
  if (text === 'true') return true;
  if (text === 'false') return false;
  if (INTEGER.test(text)) return text === '-0' ? -0 : Number(text);
  if (AMBIGUOUS.test(text)) throw NOT_PLAIN;
  return text;
}

/** Pieces of a flow collection; a colon counts only with a space after it, and a scalar has none of the characters in doubt. */
const FLOW_TOKEN = / *(?:([{}[\],])|(?:("[^"\\]*"|'[^']*'|[\w./-]+)(: +)?)) */y;

/** A one-line `{a: b}` or `[a, b]`. */
function readFlow(text: string): unknown {
  let at = 0;
  const next = (): { mark: string | undefined; word: string; isKey: boolean } => {
    FLOW_TOKEN.lastIndex = at;
    const match = FLOW_TOKEN.exec(text);
    if (match === null) throw NOT_PLAIN;
    at = FLOW_TOKEN.lastIndex;
    return { mark: match[1], word: match[2] ?? '', isKey: match[3] !== undefined };
  };

  const value = (depth: number): unknown => {
    if (depth > MAX_DEPTH) throw NOT_PLAIN;
    const { mark, word, isKey } = next();
    if (mark === '{') return map(depth);
    if (mark === '[') return list(depth);
    if (mark !== undefined || isKey) throw NOT_PLAIN;
    return scalar(word);
  };

  const map = (depth: number): Record<string, unknown> => {
    const entries: Record<string, unknown> = {};
    for (;;) {
      const { mark, word, isKey } = next();
      if (mark === '}' && Object.keys(entries).length === 0) return entries;
      const name = unquoted(word);
      if (mark !== undefined || !isKey || !KEY.test(`${word}:`) || name === '__proto__' || Object.hasOwn(entries, name))
        throw NOT_PLAIN;
      if (word === name && !INTEGER.test(name) && AMBIGUOUS.test(name)) throw NOT_PLAIN;
      entries[name] = value(depth + 1);
      if (closes('}')) return entries;
    }
  };

  const list = (depth: number): unknown[] => {
    const items: unknown[] = [];
    if (text[at] === ']') {
      at++;
      return items;
    }
    for (;;) {
      items.push(value(depth + 1));
      if (closes(']')) return items;
    }
  };

  /** @returns true at the collection's end, false after a comma */
  const closes = (end: string): boolean => {
    const { mark } = next();
    if (mark !== end && mark !== ',') throw NOT_PLAIN;
    return mark === end;
  };

  const whole = value(0);
  if (at < text.length) throw NOT_PLAIN;
  return whole;
}
