/**
 * Reads and writes certificates in a directory: `cert-chain.pem`, `key.pem`, `root-cert.pem`. The files are read from
 * FILE_MOUNTED_CERTS and PROV_CERT, and written to OUTPUT_CERTS.
 *
 * They are written as a set: the files are in a directory of their own, `..data` is a link to it, and the three names
 * are links through `..data`. Replacing that one link changes all three at once, as orchestrators do for mounted
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

/** Larger files are rejected; certificates are smaller. */
const MAX_FILE_BYTES = 1024 * 1024;

/** Number of bytes per read, enough for almost every file. */
const READ_BYTES = 16 * 1024;

/**
 * Reads the secrets of a directory. Rejects with CtlError: not_found when a file is missing, invalid_argument when the
 * files do not fit together, as between two writes.
 */
export async function readCertFiles(directory: string, now: number): Promise<WorkloadSecrets> {
  const read = (name: string): Promise<string> => readText(join(directory, name));
  // In parallel: sequential reads would more likely mix two sets.
  const [chain, key, roots] = await Promise.all([read(CHAIN), read(KEY), read(ROOTS)]);
  try {
    return secretsOf(key, [chain], rootsText([roots], ROOTS), now);
  } catch (error) {
    if (error instanceof CtlError) throw new CtlError(error.code, error.message, { file: directory }, error);
    throw error;
  }
}

/**
 * Reads a file as text. Rejects with CtlError that names it. Authors of Gateways choose the files: anything but a
 * regular file (`/dev/zero`, a pipe without a writer) could fill the memory or block a thread forever.
 */
export async function readText(file: string): Promise<string> {
  try {
    // Checked before it is opened, which may have effects for a device.
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
  if (!stats.isFile()) throw new CtlError('invalid_argument', 'is not a regular file', { file });
  if (stats.size > MAX_FILE_BYTES) throw tooLarge(file);
}

/** Reads at most the limit: the reported size may be wrong, and is 0 for files of the kernel. */
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

/** Mode of a key file that only its owner can read. */
const OWNER_ONLY = 0o600;

/** Replaces the files of a directory atomically. Rejects with the file system's error. */
export async function writeCertFiles(
  directory: string,
  { certificate, roots }: WorkloadSecrets,
  keyMode = OWNER_ONLY,
): Promise<void> {
  await makeFolder(directory, 0o755);
  const before = await readlink(join(directory, DATA)).catch(() => undefined);
  // Not `join`, which would treat the two dots as the parent folder.
  const fresh = await mkdtemp(`${directory}/..`);
  try {
    await writeSynced(join(fresh, CHAIN), certificate.chain, 0o644);
    await writeSynced(join(fresh, KEY), certificate.key, keyMode);
    await writeSynced(join(fresh, ROOTS), roots, 0o644);
    // Others may read the chain and the roots; the mode of the key's file protects it.
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
  // Only folders of earlier writes: names with one segment that begin like those of mkdtemp.
  if (before !== undefined && /^\.\.[A-Za-z0-9]{6}$/.test(before)) {
    await rm(join(directory, before), { recursive: true, force: true });
  }
}

async function writeSynced(path: string, text: string, mode: number): Promise<void> {
  const file = await open(path, 'wx', mode);
  try {
    await file.writeFile(text);
    // The process's umask must not remove permissions that readers need.
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

/** Replaces a file or link by a link, atomically. */
async function replaceLink(target: string, path: string): Promise<void> {
  const aside = `${path}.new`;
  await rm(aside, { force: true });
  await symlink(target, aside);
  await rename(aside, path);
}
