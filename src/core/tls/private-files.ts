/** State files that only this program can read and write, so that after a restart it can trust their content. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { chmod, lstat, mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CtlError } from '../errors.ts';

/** No link is followed, and a FIFO does not block. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Creates the directory, or checks that other users cannot write to it. A directory that others can read is made
 * private.
 */
export async function preparePrivateFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const info = await lstat(folder);
  if (!info.isDirectory()) throw new CtlError('failed_precondition', 'is not a directory');
  if (info.uid !== process.getuid?.()) throw new CtlError('failed_precondition', 'belongs to another user');
  if ((info.mode & 0o022) !== 0)
    throw new CtlError('failed_precondition', 'may be written by others; set its mode to 0700');
  if ((info.mode & 0o077) !== 0) await chmod(folder, 0o700);
}

/** The content of a file that only this user can read and write. Throws CtlError, or the error of the system. */
export function readPrivateFile(path: string, maxBytes: number): string {
  const descriptor = openSync(path, FLAGS);
  try {
    const info = fstatSync(descriptor);
    if (!info.isFile()) throw new CtlError('invalid_argument', 'is not a regular file');
    if (info.uid !== process.getuid?.() || (info.mode & 0o077) !== 0)
      throw new CtlError('failed_precondition', 'is accessible to other users');
    if (info.size > maxBytes)
      throw new CtlError('resource_exhausted', `has ${info.size} bytes, more than ${maxBytes} bytes`);
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

/** Prefix of the names of incomplete files. */
export const ASIDE = '.new-';

/** Writes a file atomically: after a crash, either the old or the new content is there. */
export async function replacePrivateFile(folder: string, name: string, text: string): Promise<void> {
  const aside = join(folder, `${ASIDE}${name}`);
  // A file that was left after a crash may have another mode.
  await rm(aside, { force: true });
  const handle = await open(aside, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(aside, join(folder, name));
}
