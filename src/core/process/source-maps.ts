/**
 * Translates stack frames of bundled code to its source files. Node does so only when it is started with
 * `--enable-source-maps`, and then keeps every map in memory; here a map is read when a frame of its file is shown for
 * the first time, from `<file>.map` beside the file. Unbundled sources have no maps.
 */
import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

interface LoadedMap {
  readonly map: SourceMap;
  readonly folder: string;
}

/** By file; null for a file without a readable map. */
const maps = new Map<string, LoadedMap | null>();

function mapOf(file: string): LoadedMap | null {
  let known = maps.get(file);
  if (known === undefined) {
    known = readMap(file);
    maps.set(file, known);
  }
  return known;
}

function readMap(file: string): LoadedMap | null {
  try {
    return { map: new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8'))), folder: dirname(file) };
  } catch {
    return null;
  }
}

/** `file:///dist/chunk.js:12:34`, with the text before and after it. */
const LOCATION = /^(.*?)(file:\/\/\/[^\s()]+?|\/[^\s()]+?):(\d+):(\d+)(\)?)$/;

/** A line of a stack trace with the location in the source file; the line itself when that is unknown. */
export function sourceFrame(line: string): string {
  const [, before, file, row, column, after] = LOCATION.exec(line) ?? [];
  if (file === undefined) return line;
  const found = findSource(file, Number(row), Number(column));
  return found === undefined ? line : `${before}${found.file}:${found.line}:${found.column}${after}`;
}

interface SourcePosition {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The position in the source file, counted from 1; undefined without a map. */
function findSource(file: string, line: number, column: number): SourcePosition | undefined {
  const loaded = mapOf(file.startsWith('file:') ? fileURLToPath(file) : file);
  const entry = loaded?.map.findEntry(line - 1, column - 1);
  if (!loaded || entry === undefined || !('originalSource' in entry)) return undefined;
  const { originalSource, originalLine, originalColumn } = entry;
  const source = relative(resolve(loaded.folder, '..'), join(loaded.folder, originalSource));
  return { file: source, line: originalLine + 1, column: originalColumn + 1 };
}

/** A position in a file of the program, which may be bundled, in its source file. */
export function sourceLocation(file: string, line: number, column: number): Pick<SourcePosition, 'file' | 'line'> {
  return findSource(file, line, column) ?? { file: file.replace(/^file:\/\//, ''), line };
}

/** A whole stack trace, as in `error.stack`. */
export function sourceStack(stack: string): string {
  return stack.split('\n').map(sourceFrame).join('\n');
}
