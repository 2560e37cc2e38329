/** The sample configuration: where it is, and copies of it that may be edited and moved to other ports. */
import { cp, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Owner, tempDir } from '../../test/harness/index.ts';
import { SAMPLE_BASE } from './ports.ts';

export const SAMPLES = join(import.meta.dirname, '../../samples/demo');

/** Text of a sample file with its ports (180xx) moved to another base. */
export function movePorts(text: string, base: number): string {
  return text.replace(/\b180\d\d\b/g, (port) => String(Number(port) - SAMPLE_BASE + base));
}

/** Copies the samples into a folder that goes with its owner, and moves their ports. Gives the folder. */
export async function copySamples(owner: Owner, base: number): Promise<string> {
  const folder = await tempDir(owner);
  await cp(SAMPLES, folder, { recursive: true });
  if (base === SAMPLE_BASE) return folder;
  for (const name of await readdir(folder)) {
    const file = join(folder, name);
    await writeFile(file, movePorts(await readFile(file, 'utf8'), base));
  }
  return folder;
}

/** Edits a file as an editor does: writes another and renames it into place. Throws when `from` is not in the file. */
export async function editFile(file: string, from: string, to: string): Promise<void> {
  const text = await readFile(file, 'utf8');
  if (!text.includes(from)) throw new Error(`${file} does not hold ${JSON.stringify(from)}`);
  await writeFile(`${file}.new`, text.replaceAll(from, to));
  await rename(`${file}.new`, file);
}
