/**
 * Certificates in a directory: `cert-chain.pem`, `key.pem`, `root-cert.pem`. Read where somebody else keeps them
 * (FILE_MOUNTED_CERTS, PROV_CERT), written where the workload wants them (OUTPUT_CERTS).
 *
 * Written as a set: the files of one moment stand in a directory of their own, `..data` is a link to it, and the three
 * names are links through `..data`. Replacing that one link changes all three at once, which is how orchestrators mount
 * secrets.
 */
import { constants, type Stats } from 'node:fs';
import { type FileHandle, mkdtemp, open, readlink, rename, rm, stat, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { CtlError } from '../../core/errors.ts';
import { makeFolder } from '../folder.ts';
import type { WorkloadSecrets } from '../types.ts';
import { rootsText, secretsOf } from './certificates.ts';

const CHAIN = 'cert-chain.pem';
const KEY = 'key.pem';
const ROOTS = 'root-cert.pem';
const DATA = '..data';

/** Larger files hold something else. */
const MAX_FILE_BYTES = 1024 * 1024;

/** Read at a time: nearly always a whole file. */
const READ_BYTES = 16 * 1024;

/**
 * The secrets of a directory. Rejects with CtlError: not_found when a file is missing, invalid_argument when they do
 * not fit together, as between two writes.
 */
export async function readCertFiles(directory: string, now: number): Promise<WorkloadSecrets> {
  const read = (name: string): Promise<string> => readText(join(directory, name));
  // One after the other would make it likelier to read half of one set and half of the next.
  const [chain, key, roots] = await Promise.all([read(CHAIN), read(KEY), read(ROOTS)]);
  try {
    return secretsOf(key, [chain], rootsText([roots], ROOTS), now);
  } catch (error) {
    if (error instanceof CtlError) throw new CtlError(error.code, error.message, { file: directory }, error);
    throw error;
  }
}

/**
 * A file as text. Rejects with CtlError naming it. Whoever may write a Gateway names files: what is no plain file
 * (`/dev/zero`, a pipe that nobody writes) would fill the memory or hold a thread for ever.
 */
export async function readText(file: string): Promise<string> {
  try {
    // Before it is opened, which with a device may already do something.
    checkPlain(await stat(file), file);
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    try {
      checkPlain(await handle.stat(), file);
      return await readBounded(handle, file);
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof CtlError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    const message = code === 'ENOENT' ? 'there is no such file' : `cannot be read (${code ?? String(error)})`;
    throw new CtlError(code === 'ENOENT' ? 'not_found' : 'invalid_argument', message, { file }, error);
  }
}

function checkPlain(stats: Stats, file: string): void {
  if (!stats.isFile()) throw new CtlError('invalid_argument', 'is no plain file', { file });
  if (stats.size > MAX_FILE_BYTES) throw tooLarge(file);
}

/** What files say of their size need not be true: those of the kernel have none. */
async function readBounded(handle: FileHandle, file: string): Promise<string> {
  const parts: Buffer[] = [];
  let total = 0;
  while (total <= MAX_FILE_BYTES) {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(READ_BYTES));
    if (bytesRead === 0) return Buffer.concat(parts).toString('utf8');
    parts.push(buffer.subarray(0, bytesRead));
    total += bytesRead;
  }
  throw tooLarge(file);
}

function tooLarge(file: string): CtlError {
  return new CtlError('invalid_argument', `more than ${MAX_FILE_BYTES} bytes`, { file });
}

/**
 * Replaces the files of a directory by these, all at once; the key for the owner only. Rejects with the file system's
 * error.
 */
export async function writeCertFiles(directory: string, { certificate, roots }: WorkloadSecrets): Promise<void> {
  await makeFolder(directory, 0o755);
  const before = await readlink(join(directory, DATA)).catch(() => undefined);
  // Not `join`, which would take the two dots for the folder above.
  const fresh = await mkdtemp(`${directory}/..`);
  try {
    await writeSynced(join(fresh, CHAIN), certificate.chain, 0o644);
    await writeSynced(join(fresh, KEY), certificate.key, 0o600);
    await writeSynced(join(fresh, ROOTS), roots, 0o644);
    // Others may read the chain and the roots; the key's own mode keeps it.
    await chmodDirectory(fresh);
    await replaceLink(basename(fresh), join(directory, DATA));
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    throw error;
  }
  for (const name of [CHAIN, KEY, ROOTS]) {
    const target = join(DATA, name);
    const path = join(directory, name);
    if ((await readlink(path).catch(() => undefined)) !== target) await replaceLink(target, path);
  }
  // Only what an earlier write made: names of one part that begin as mkdtemp's do.
  if (before !== undefined && /^\.\.[A-Za-z0-9]{6}$/.test(before)) {
    await rm(join(directory, before), { recursive: true, force: true });
  }
}

async function writeSynced(path: string, text: string, mode: number): Promise<void> {
  const file = await open(path, 'wx', mode);
  try {
    await file.writeFile(text);
    // The process's mask must not take from the mode what readers need.
    await file.chmod(mode);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function chmodDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.chmod(0o755);
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** A link in the place of whatever file or link stands there, without a moment in which nothing does. */
async function replaceLink(target: string, path: string): Promise<void> {
  const aside = `${path}.new`;
  await rm(aside, { force: true });
  await symlink(target, aside);
  await rename(aside, path);
}
