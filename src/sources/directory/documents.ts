/**
 * The documents of one file. A YAML file is split at its `---` lines and each part is parsed on its own: a syntax error
 * affects one document, and a part that has not changed since the last reading is not parsed again.
 */
import type { Document } from 'yaml';
import { messageOf } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import {
  type DocumentLimits,
  documentLimits,
  type Locate,
  type ParsedResource,
  type ResourceOrigin,
  type Substitute,
  salvaged,
} from '../../resources/index.ts';
import { isAliasNode, type ParsedYaml, parseYaml } from '../complete-yaml.ts';
import { readItems } from './list-items.ts';
import { readPlainYaml } from './plain-yaml.ts';

/** Name of the source in the origin of its resources. */
export const SOURCE = 'directory';

/** A part of a file with its content: nothing (comments), a resource, or the items of a List. */
export interface FilePart {
  readonly text: string;
  /** 1-based line in the file. */
  readonly line: number;
  /** Number of documents before it in the file. */
  readonly index: number;
  readonly found: readonly ParsedResource[];
}

/** Maximum number of expanded aliases: the protection of the library against exponential documents. */
const MAX_ALIASES = 100;
/** Deeper nesting is refused before parsing: parsing recurses, and protobuf's own JSON form allows 100. */
const MAX_NESTING = 200;
const DEEP_SEQUENCE = new RegExp(`(?:-[ \\t]+){${MAX_NESTING}}`);
/** A document marker is at the beginning of a line, followed by white space or nothing (YAML 1.2, 9.1.2). */
const MARKER = /^---(?=[ \t\r\n]|$)/gm;
const DIRECTIVE = /^%/m;

/**
 * Yields after each document.
 * @param previous parts of the last reading, reused where text and position are equal
 */
export function* readDocuments(
  file: string,
  text: string,
  previous: readonly FilePart[] = [],
  limits: DocumentLimits = documentLimits(1),
): Slices<FilePart[]> {
  const known = previous.length === 0 ? undefined : new Map(previous.map((part) => [placeOf(part), part]));
  const parts: FilePart[] = [];
  let index = 0;
  for (const piece of piecesOf(file, text)) {
    const before = known?.get(placeOf({ ...piece, index }));
    const part = before ?? { ...piece, index, found: yield* readPart(file, piece, index, limits) };
    parts.push(part);
    index += part.found.length;
    yield;
  }
  return parts;
}

/** A part's outcome depends only on its text and on the position that its messages name. */
function placeOf(part: Omit<FilePart, 'found'>): string {
  return `${part.line}#${part.index}#${part.text}`;
}

interface Piece {
  readonly text: string;
  readonly line: number;
}

function piecesOf(file: string, text: string): readonly Piece[] {
  return file.endsWith('.json') ? [{ text, line: 1 }] : cut(text);
}

/** Characters of the longest document of a file. */
export function longestDocument(file: string, text: string): number {
  return piecesOf(file, text).reduce((longest, piece) => Math.max(longest, piece.text.length), 0);
}

function cut(text: string): Piece[] {
  // Directives belong to the marker after them; such files are rare and need not be fast.
  const starts = DIRECTIVE.test(text) ? [] : [...text.matchAll(MARKER)].map((match) => match.index);
  const pieces: Piece[] = [];
  let from = 0;
  let line = 1;
  for (const end of [...starts.filter((start) => start > 0), text.length]) {
    const piece = text.slice(from, end);
    pieces.push({ text: piece, line });
    line += countLines(piece);
    from = end;
  }
  return pieces;
}

function countLines(text: string): number {
  let lines = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}

function* readPart(file: string, piece: Piece, index: number, limits: DocumentLimits): Slices<ParsedResource[]> {
  const origin = { source: SOURCE, file, line: piece.line };
  try {
    return yield* readPiece(origin, piece, index, limits);
  } catch (error) {
    // The nesting exceeds the stack, or there are too many aliases: only this document is affected.
    return [unreadable(origin, index, messageOf(error), piece.text)];
  }
}

function* readPiece(
  origin: ResourceOrigin & { line: number },
  piece: Piece,
  index: number,
  limits: DocumentLimits,
): Slices<ParsedResource[]> {
  if (isTooDeep(piece.text)) return [unreadable(origin, index, `nested deeper than ${MAX_NESTING}`, piece.text)];
  const plain = readPlainYaml(piece.text);
  let parsed: ParsedYaml | undefined;
  // Needed for documents that are not plain, and for the lines of errors.
  const complete = (): ParsedYaml => {
    parsed ??= parseYaml(piece.text);
    return parsed;
  };
  const lineAt = (offset: number): number => piece.line + complete().lines.linePos(offset).line - 1;
  const locate = (prefix: readonly (string | number)[]): Locate => {
    return (path) => {
      const offset = offsetOf(complete().document, [...prefix, ...path]);
      return offset === undefined ? undefined : lineAt(offset);
    };
  };
  if (plain === undefined) {
    const [error] = complete().document.errors;
    if (error !== undefined) {
      const message = error.code === 'MULTIPLE_DOCS' ? 'documents must be separated by "---" lines' : error.message;
      return [unreadable({ ...origin, line: lineAt(error.pos[0]) }, index, message, piece.text)];
    }
  }
  const raw: unknown = plain === undefined ? complete().document.toJS({ maxAliasCount: MAX_ALIASES }) : plain.value;
  if (raw === null || raw === undefined) return [];
  const line = plain === undefined ? (locate([])([]) ?? piece.line) : piece.line + plain.line;
  return yield* readItems(raw, { origin: { ...origin, line }, index, text: piece.text, limits, locate });
}

/** Counts open brackets, including those in strings: no real document has so many unclosed brackets in a string. */
function isTooDeep(text: string): boolean {
  return (hasManyBrackets(text) && isDeeplyBracketed(text)) || DEEP_SEQUENCE.test(text);
}

/** Whether there may be enough brackets that they must be counted. */
function hasManyBrackets(text: string): boolean {
  let brackets = 0;
  for (const bracket of '[{') {
    for (let at = text.indexOf(bracket); at >= 0 && brackets <= MAX_NESTING; at = text.indexOf(bracket, at + 1)) {
      brackets++;
    }
  }
  return brackets > MAX_NESTING;
}

function isDeeplyBracketed(text: string): boolean {
  let depth = 0;
  for (const [bracket] of text.matchAll(/[[{\]}]/g)) {
    depth = bracket === '[' || bracket === '{' ? depth + 1 : Math.max(0, depth - 1);
    if (depth > MAX_NESTING) return true;
  }
  return false;
}

function offsetOf(document: Document, path: readonly (string | number)[]): number | undefined {
  const node: unknown = path.length === 0 ? document.contents : document.getIn(path, true);
  if (typeof node !== 'object' || node === null) return undefined;
  if (isAliasNode(node) || 'range' in node) {
    const range: unknown = 'range' in node ? node.range : undefined;
    return Array.isArray(range) && typeof range[0] === 'number' ? range[0] : undefined;
  }
  return undefined;
}

function unreadable(origin: ResourceOrigin, index: number, message: string, piece: string): ParsedResource {
  // The parser quotes unexpected text, which may be a line of a private key.
  const text = message.replace(/: ".*"$/s, '').replaceAll('\n', ' ');
  const substitutes = salvaged(piece);
  return {
    problem: {
      id: `${origin.file ?? SOURCE}#${index}`,
      origin,
      field: '',
      message: `expected YAML or JSON: ${text}`,
      ...(substitutes === undefined ? {} : { substitutes }),
    },
  };
}

/** Substitutes for the security documents in a file that cannot be split into documents. */
export function salvagedPieces(text: string): Substitute[] | undefined {
  const found = cut(text).map((piece) => salvaged(piece.text));
  return found.every((each) => each === undefined) ? undefined : found.flatMap((each) => each ?? []);
}
