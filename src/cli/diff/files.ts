/** The files of a change, as `POST /debug/diffz` reads them: a line of JSON for each. */
import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import { inputText } from '../input-file.ts';

/** The discovery service refuses more. */
const MAX_BYTES = 32 * 1024 * 1024;

/** Files by their names; `-` is the standard input. */
export async function linesOfFiles(names: Iterable<string>): Promise<string[]> {
  const lines = new Lines();
  for (const name of names) {
    lines.add(await lineOf(name));
  }
  return lines.all;
}

/** The files of a directory that a discovery service would read. */
export async function linesOfDirectory(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
    throw new CtlError('invalid_argument', `expected a readable directory: ${errnoOf(error) ?? messageOf(error)}`, {
      file: directory,
    });
  });
  const lines = new Lines();
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    if (!/\.(?:ya?ml|json)$/.test(entry.name) || isHidden(relative(directory, path)) || entry.isDirectory()) continue;
    lines.add(await lineOf(path));
  }
  return lines.all.sort();
}

function isHidden(path: string): boolean {
  return path.split('/').some((part) => part.startsWith('.'));
}

/** Lines of a request, within its limit. */
class Lines {
  readonly all: string[] = [];
  #bytes = 0;

  /** Throws CtlError `invalid_argument` when they are too large together. */
  add(line: string): void {
    // With the line feed after it.
    this.#bytes += Buffer.byteLength(line) + 1;
    if (this.#bytes > MAX_BYTES)
      throw new CtlError('invalid_argument', `expected files of at most ${MAX_BYTES} bytes together`);
    this.all.push(line);
  }
}

async function lineOf(name: string): Promise<string> {
  const text = await inputText(name, MAX_BYTES);
  return JSON.stringify({ files: [{ file: name === '-' ? 'standard input' : name, text }] });
}
