/** What lies in a directory tree: the files that can hold resources, with what tells a changed file from an unchanged one. */
import type { BigIntStats } from 'node:fs';
import { lstat, readdir, readlink, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

export interface ScannedFile {
  /** Differs when the file was written, replaced, or its link points elsewhere. */
  readonly signature: string;
  readonly size: number;
}

export interface Scan {
  readonly files: ReadonlyMap<string, ScannedFile>;
  /** Directories to watch, with their identity: the tree's own, and those in which the targets of links lie. */
  readonly directories: ReadonlyMap<string, string>;
  /** Directories that could not be listed: what was known below them is to be kept. */
  readonly unreadable: readonly string[];
}

/** How many stats are in flight at once: enough to hide latency, few enough for the thread pool. */
const BATCH = 32;

/** Whether a name is one that is read: YAML or JSON, and not hidden (editors' scratch files, `..data` of mounted volumes). */
export function isResourceFile(name: string): boolean {
  return !name.startsWith('.') && /\.(ya?ml|json)$/i.test(name);
}

/** A file's signature, `undefined` when there is no such file. Follows links. */
export async function statFile(path: string): Promise<ScannedFile | undefined> {
  const info = await statOf(path);
  return info?.isFile() ? fileOf(info) : undefined;
}

/** Whether a path is no file itself, but a link to one, or a directory that is named like one. */
export async function isDetour(path: string): Promise<boolean> {
  try {
    const info = await lstat(path);
    return info.isSymbolicLink() || info.isDirectory();
  } catch {
    return false;
  }
}

/** Identity of a directory, `undefined` when there is none. */
export async function directoryIdentity(path: string): Promise<string | undefined> {
  const info = await statOf(path);
  return info?.isDirectory() ? identity(info) : undefined;
}

/**
 * Walks the tree below `root`, following links, each directory once.
 * @param onDirectory called before a directory is listed, so that a watch set up in it misses nothing
 * @throws when `root` cannot be listed
 */
export async function scanTree(root: string, onDirectory: (path: string, identity: string) => void): Promise<Scan> {
  const files = new Map<string, ScannedFile>();
  const directories = new Map<string, string>();
  const unreadable: string[] = [];
  const seen = new Set<string>();

  const visit = async (directory: string, id: string): Promise<void> => {
    if (seen.has(id)) return;
    seen.add(id);
    directories.set(directory, id);
    onDirectory(directory, id);
    const entries = (await readdir(directory, { withFileTypes: true })).filter((entry) => !entry.name.startsWith('.'));
    entries.sort((a, b) => (a.name < b.name ? -1 : 1));
    const below: string[] = [];
    const names: { path: string; isLink: boolean }[] = [];
    for (const entry of entries) {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) below.push(path);
      else if (entry.isSymbolicLink() || isResourceFile(entry.name))
        names.push({ path, isLink: entry.isSymbolicLink() });
    }
    for (let from = 0; from < names.length; from += BATCH) {
      await Promise.all(names.slice(from, from + BATCH).map((name) => visitFile(name, below)));
    }
    for (const path of below.sort()) await visitBelow(path);
  };

  const visitFile = async ({ path, isLink }: { path: string; isLink: boolean }, below: string[]): Promise<void> => {
    const info = await statOf(path);
    if (info === undefined) return;
    if (info.isDirectory()) below.push(path);
    else if (info.isFile() && isResourceFile(path.slice(path.lastIndexOf('/') + 1))) files.set(path, fileOf(info));
    if (isLink) await noteTarget(path);
  };

  /** A linked file may be written where it lies, and the link's way there may be swapped. */
  const noteTarget = async (path: string): Promise<void> => {
    try {
      for (const place of [dirname(await realpath(path)), dirname(join(dirname(path), await readlink(path)))]) {
        const id = await directoryIdentity(place);
        if (id === undefined || [...directories.values()].includes(id)) continue;
        directories.set(place, id);
        onDirectory(place, id);
      }
    } catch {
      // Gone between listing and looking: the event of that leads here again.
    }
  };

  const visitBelow = async (path: string): Promise<void> => {
    try {
      const id = await directoryIdentity(path);
      if (id !== undefined) await visit(path, id);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') unreadable.push(path);
    }
  };

  const rootId = await directoryIdentity(root);
  if (rootId === undefined) {
    const code = (await statOf(root)) === undefined ? 'ENOENT' : 'ENOTDIR';
    throw Object.assign(new Error(`${root} is no directory`), { code });
  }
  await visit(root, rootId);
  return { files, directories, unreadable };
}

async function statOf(path: string): Promise<BigIntStats | undefined> {
  try {
    return await stat(path, { bigint: true });
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') return undefined;
    throw error;
  }
}

function fileOf(info: BigIntStats): ScannedFile {
  // The change time differs even where a tool restores the modification time.
  const signature = `${info.dev}:${info.ino}:${info.size}:${info.mtimeNs}:${info.ctimeNs}`;
  return { signature, size: Number(info.size) };
}

function identity(info: BigIntStats): string {
  return `${info.dev}:${info.ino}`;
}

/** The system's code of an I/O error, such as `ENOENT`. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
