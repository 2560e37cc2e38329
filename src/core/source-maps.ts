/**
 * Stack frames of bundled code, by the source files that it was made of. Node maps frames by itself only when it starts
 * with `--enable-source-maps`, and then keeps every map in memory; here a map is read when a frame of its file is shown
 * for the first time, from `<file>.map` beside the file. Sources that run as they are have none.
 */
import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

interface LoadedMap {
  readonly map: SourceMap;
  readonly folder: string;
}

/** By file; null: it has no map that can be read. */
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

/** `file:///dist/chunk.js:12:34`, with what is before and after it. */
const PLACE = /^(.*?)(file:\/\/\/[^\s()]+?|\/[^\s()]+?):(\d+):(\d+)(\)?)$/;

/** A line of a stack trace with the place in the source file; the line itself where that is not known. */
export function sourceFrame(line: string): string {
  const [, before, file, row, column, after] = PLACE.exec(line) ?? [];
  if (file === undefined) return line;
  const loaded = mapOf(file.startsWith('file:') ? fileURLToPath(file) : file);
  const entry = loaded?.map.findEntry(Number(row) - 1, Number(column) - 1);
  if (!loaded || entry === undefined || !('originalSource' in entry)) return line;
  const { originalSource, originalLine, originalColumn } = entry;
  const source = relative(resolve(loaded.folder, '..'), join(loaded.folder, originalSource));
  return `${before}${source}:${originalLine + 1}:${originalColumn + 1}${after}`;
}

/** A whole stack trace, as `error.stack` has it. */
export function sourceStack(stack: string): string {
  return stack.split('\n').map(sourceFrame).join('\n');
}
