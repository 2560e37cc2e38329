/**
 * Stores the state of a self-signed authority in a directory: `ca-state.json` (0600) with the keys, and `root-cert.pem`
 * (0644), the trust bundle for agents that read it from a file. Agents run as other users, so a new directory gets mode
 * 0755; an existing one keeps its mode. One program per directory.
 */
import { chmod, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import type { AuthorityState, AuthorityStore } from '../types.ts';
import { type DirectoryLock, lockDirectory } from './directory-lock.ts';
import { checkCertificate, checkPair, problemAt } from './stored-state.ts';

const STATE_FILE = 'ca-state.json';
const BUNDLE_FILE = 'root-cert.pem';

/**
 * Permissions of users other than owner and group. Those of the group are not checked: volumes with a group as owner
 * are mounted with them (fsGroup).
 */
const OTHERS = 0o007;

const root = { key: z.string(), certificate: z.string() };

const STATE = z.strictObject({
  version: z.literal(1),
  ...root,
  next: z.strictObject({ ...root, announcedAt: z.number() }).optional(),
  former: z.array(z.string()),
});

/** A store in this directory, which is created when the first state is saved. */
export function createDirectoryStore(directory: string): AuthorityStore {
  const file = join(directory, STATE_FILE);
  const bundleFile = join(directory, BUNDLE_FILE);
  return {
    async load() {
      const text = await readState(file, bundleFile);
      return text === undefined ? undefined : parseState(file, text);
    },
    async save(state) {
      try {
        await makeDirectory(directory);
        // The state first: a bundle without its keys would be worse than one that is outdated until the next start.
        await writeAtomically(directory, STATE_FILE, `${JSON.stringify({ version: 1, ...state }, null, 2)}\n`, 0o600);
        const bundle = [state.certificate, ...(state.next ? [state.next.certificate] : []), ...state.former];
        await writeAtomically(directory, BUNDLE_FILE, bundle.join(''), 0o644);
      } catch (error) {
        throw problemAt({ file }, `cannot be written (${errnoOf(error) ?? messageOf(error)})`, error);
      }
    },
  };
}

async function makeDirectory(directory: string): Promise<void> {
  const made = await mkdir(directory, { recursive: true, mode: 0o755 });
  // Regardless of the process's umask.
  if (made !== undefined) await chmod(directory, 0o755);
}

/**
 * Locks the directory for this program, and creates it when there is none. Rejects with CtlError when another program
 * holds it. Undefined if the directory is not writable: it is then not locked, and the problem is reported when the
 * state is read or saved.
 */
export async function lockStore(directory: string): Promise<DirectoryLock | undefined> {
  try {
    await makeDirectory(directory);
    return await lockDirectory(directory);
  } catch (error) {
    if (error instanceof CtlError) throw error;
    return undefined;
  }
}

async function readState(file: string, bundleFile: string): Promise<string | undefined> {
  try {
    const found = await stat(file);
    if (found.isFile() && (found.mode & OTHERS) !== 0) {
      const shown = (found.mode & 0o777).toString(8).padStart(4, '0');
      throw problemAt(
        { file },
        `holds the authority's key, and its mode ${shown} lets other users read it; set it to 0600`,
      );
    }
    return await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof CtlError) throw error;
    if (errnoOf(error) !== 'ENOENT')
      throw problemAt({ file }, `cannot be read (${errnoOf(error) ?? messageOf(error)})`, error);
  }
  const published = await stat(bundleFile).catch(() => undefined);
  if (published === undefined) return undefined;
  throw problemAt(
    { file },
    `is missing, though ${bundleFile} of the same authority exists; restore it, or remove both for a new authority`,
  );
}

function parseState(file: string, text: string): AuthorityState {
  let parsed: z.infer<typeof STATE>;
  try {
    parsed = STATE.parse(JSON.parse(text));
  } catch (error) {
    throw problemAt(
      { file },
      "does not hold a certificate authority's state; restore a good copy, or remove it to start a new authority",
      error,
    );
  }
  const { key, certificate, next, former } = parsed;
  checkPair({ file }, key, certificate);
  if (next !== undefined) checkPair({ file }, next.key, next.certificate);
  for (const each of former) checkCertificate({ file }, each);
  return { key, certificate, former, ...(next === undefined ? {} : { next }) };
}

/** Writes a temporary file, syncs and renames it: after a crash there is the old file or the new one. */
async function writeAtomically(directory: string, name: string, text: string, mode: number): Promise<void> {
  const aside = join(directory, `.${name}.new`);
  // A file that a crash left behind may have another mode.
  await rm(aside, { force: true });
  const handle = await open(aside, 'wx', mode);
  try {
    await handle.chmod(mode);
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(aside, join(directory, name));
  const folder = await open(directory, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
