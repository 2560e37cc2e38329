/** The files of a change, as `POST /debug/diffz` reads them: a line of JSON for each. */
import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import { inputText } from '../input-file.ts';

/** The discovery service refuses more. */
const MAX_BYTES = 32 * 1024 * 1024;

/** Files by their names; `-` is the standard input. */
export async function linesOfFiles(names: Iterable<string>): Promise<string[]> {
  const lines: string[] = [];
  for (const name of names) {
    lines.push(await lineOf(name));
    within(lines);
  }
  return lines;
}

/** The files of a directory that a discovery service would read. */
export async function linesOfDirectory(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
    throw new CtlError('invalid_argument', `expected a readable directory: ${errnoOf(error) ?? messageOf(error)}`, {
      file: directory,
    });
  });
  const lines: string[] = [];
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    if (!/\.(?:ya?ml|json)$/.test(entry.name) || isHidden(relative(directory, path)) || entry.isDirectory()) continue;
    lines.push(await lineOf(path));
    within(lines);
  }
  return lines.sort();
}

function isHidden(path: string): boolean {
  return path.split('/').some((part) => part.startsWith('.'));
}

function within(lines: readonly string[]): void {
  const bytes = lines.reduce((sum, line) => sum + line.length, 0);
  if (bytes > MAX_BYTES)
    throw new CtlError('invalid_argument', `expected files of at most ${MAX_BYTES} bytes together`);
}

async function lineOf(name: string): Promise<string> {
  const text = await inputText(name, MAX_BYTES);
  return JSON.stringify({ files: [{ file: name === '-' ? 'standard input' : name, text }] });
}
