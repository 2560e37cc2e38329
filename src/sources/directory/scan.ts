/** Scans a directory tree: the files that can have resources, each with a signature that changes when the file does. */
import { type BigIntStats, lstatSync } from 'node:fs';
import { readdir, readlink, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errnoOf } from '../../core/errors.ts';

export interface ScannedFile {
  /** Differs when the file was written or replaced, or its link points elsewhere. */
  readonly signature: string;
  readonly size: number;
}

export interface Scan {
  readonly files: ReadonlyMap<string, ScannedFile>;
  /** Directories to watch, with their identity: those of the tree, and those of link targets. */
  readonly directories: ReadonlyMap<string, string>;
  /** Directories that could not be listed: everything known below them is to be kept. */
  readonly unreadable: readonly string[];
  /** Paths in the tree that are not followed, path → why. */
  readonly refused: ReadonlyMap<string, string>;
}

/** The number of concurrent calls of stat: enough to hide latency, and not too many for the thread pool. */
const BATCH = 32;

/** Whether a name is read: YAML or JSON, and not hidden (editors' temporary files, `..data` of mounted volumes). */
export function isResourceFile(name: string): boolean {
  return !name.startsWith('.') && /\.(ya?ml|json)$/i.test(name);
}

/**
 * The file at a path that has changed: `undefined` when there is no such file, `unknown` when it cannot be determined
 * or `root` itself is missing, and `detour` for a link, or a directory with the name of a file. Waits for the file
 * system: through the thread pool it would take several times as much CPU time.
 */
export async function statBelow(root: string, path: string): Promise<ScannedFile | undefined | 'unknown' | 'detour'> {
  try {
    const info = lstatOf(path);
    if (info?.isSymbolicLink() || info?.isDirectory()) return 'detour';
    if (info?.isFile()) return fileOf(info);
    return (await directoryIdentity(root)) === undefined ? 'unknown' : undefined;
  } catch {
    return 'unknown';
  }
}

/** Does not follow a link. */
function lstatOf(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (isMissing(errnoOf(error))) return undefined;
    throw error;
  }
}

/** Identity of a directory, `undefined` when there is none. */
export async function directoryIdentity(path: string): Promise<string | undefined> {
  const info = await statOf(path);
  return info?.isDirectory() ? identity(info) : undefined;
}

/** The directory to scan does not exist, or is not a directory; `code` is that of the failed call. */
class NotADirectory extends Error {
  readonly code: 'ENOENT' | 'ENOTDIR';

  constructor(path: string, code: 'ENOENT' | 'ENOTDIR') {
    super(`${path} is not a directory`);
    this.code = code;
  }
}

/**
 * Walks the tree below `root`, each directory once. Links to files are followed wherever they lead, because mounted
 * volumes need it. A link to a directory is followed within the tree; of a directory outside only the files directly in
 * it are read, so that a link to `/` does not make the whole machine part of the configuration.
 * @param onDirectory called before a directory is listed, so that a watch set up in it misses nothing
 * @throws when `root` cannot be listed
 */
export async function scanTree(root: string, onDirectory: (path: string, identity: string) => void): Promise<Scan> {
  const rootId = await directoryIdentity(root);
  if (rootId === undefined) {
    throw new NotADirectory(root, (await statOf(root)) === undefined ? 'ENOENT' : 'ENOTDIR');
  }
  const walk = new TreeWalk(await realpath(root), onDirectory);
  await walk.visit(root, rootId, false);
  return walk;
}

/** One walk over a tree, and what it has found. */
class TreeWalk implements Scan {
  readonly files = new Map<string, ScannedFile>();
  readonly directories = new Map<string, string>();
  readonly unreadable: string[] = [];
  readonly refused = new Map<string, string>();
  /** Path of the root without links. */
  readonly #realRoot: string;
  readonly #onDirectory: (path: string, identity: string) => void;
  /** Identities of the directories that were listed. */
  readonly #seen = new Set<string>();

  constructor(realRoot: string, onDirectory: (path: string, identity: string) => void) {
    this.#realRoot = realRoot;
    this.#onDirectory = onDirectory;
  }

  /** Lists a directory and visits what is in it. `isOutside`: it was reached by a link that leaves the tree. */
  async visit(directory: string, id: string, isOutside: boolean): Promise<void> {
    if (this.#seen.has(id)) return;
    this.#seen.add(id);
    this.#addDirectory(directory, id);
    const { below, names } = await listDirectory(directory);
    for (let from = 0; from < names.length; from += BATCH) {
      await Promise.all(names.slice(from, from + BATCH).map((name) => this.#visitFile(name, below)));
    }
    if (isOutside && below.length > 0) this.refused.set(directory, outsideMessage(below.length));
    else for (const each of below.sort((a, b) => (a.path < b.path ? -1 : 1))) await this.#visitBelow(each);
  }

  #addDirectory(directory: string, id: string): void {
    this.directories.set(directory, id);
    this.#onDirectory(directory, id);
  }

  /** @param below receives the path when it leads to a directory */
  async #visitFile({ path, isLink }: Entry, below: Entry[]): Promise<void> {
    const info = await statOf(path, () => this.refused.set(path, 'expected a file, got a symbolic link to itself'));
    if (info === undefined) {
      if (path.includes(REPLACEMENT)) this.refused.set(path, NOT_UTF8);
      return;
    }
    if (info.isDirectory()) below.push({ path, isLink });
    else if (info.isFile() && isResourceFile(path.slice(path.lastIndexOf('/') + 1))) this.files.set(path, fileOf(info));
    if (isLink) await this.#addTarget(path);
  }

  /** A linked file may be written at its target, and the link's path may be swapped. */
  async #addTarget(path: string): Promise<void> {
    try {
      for (const directory of [dirname(await realpath(path)), dirname(join(dirname(path), await readlink(path)))]) {
        const id = await directoryIdentity(directory);
        if (id === undefined || [...this.directories.values()].includes(id)) continue;
        this.#addDirectory(directory, id);
      }
    } catch {
      // Deleted between listing and stat: its event causes another scan.
    }
  }

  async #visitBelow({ path, isLink }: Entry): Promise<void> {
    try {
      const id = await directoryIdentity(path);
      if (id === undefined) {
        if (path.includes(REPLACEMENT)) this.refused.set(path, NOT_UTF8);
        return;
      }
      const target = isLink ? await realpath(path) : undefined;
      if (target !== undefined && (await this.#isLoop(path, target))) {
        const expectation = 'expected a symbolic link to a directory that does not contain the link';
        this.refused.set(path, `${expectation}, got a link to ${target}; it is not followed`);
        return;
      }
      await this.visit(path, id, target !== undefined && !isWithin(target, this.#realRoot));
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') this.unreadable.push(path);
    }
  }

  /** Whether a link leads to a directory of the tree that contains the link. */
  async #isLoop(path: string, target: string): Promise<boolean> {
    return isWithin(await realpath(dirname(path)), target) && isWithin(target, this.#realRoot);
  }
}

/** Directories in a directory, and the entries that may be files to read. Without hidden names; in order of names. */
async function listDirectory(directory: string): Promise<{ readonly below: Entry[]; readonly names: Entry[] }> {
  const entries = (await readdir(directory, { withFileTypes: true })).filter((entry) => !entry.name.startsWith('.'));
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  const below: Entry[] = [];
  const names: Entry[] = [];
  for (const entry of entries) {
    const path = join(directory, entry.name);
    const isLink = entry.isSymbolicLink();
    if (entry.isDirectory()) below.push({ path, isLink });
    else if (isLink || isResourceFile(entry.name)) names.push({ path, isLink });
  }
  return { below, names };
}

/** A file or directory that was found in a directory. */
interface Entry {
  readonly path: string;
  readonly isLink: boolean;
}

/** Node.js replaces bytes that are not UTF-8 by this character; a path with it does not name the file. */
const REPLACEMENT = '\ufffd';
const NOT_UTF8 = 'expected a name in UTF-8; the file is not read';

function outsideMessage(directories: number): string {
  const which = directories === 1 ? 'directory' : `${directories} directories`;
  return `links to a directory outside the configuration directory: its files are read, but not the ${which} below it`;
}

/** Whether `path` is `directory` or below it. */
function isWithin(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory === '/' ? '/' : `${directory}/`);
}

async function statOf(path: string, onLoop?: () => void): Promise<BigIntStats | undefined> {
  try {
    return await stat(path, { bigint: true });
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'ELOOP') onLoop?.();
    if (isMissing(code)) return undefined;
    throw error;
  }
}

/** Whether the code of a failed call says that a path leads nowhere. */
function isMissing(code: string | undefined): boolean {
  return code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP';
}

function fileOf(info: BigIntStats): ScannedFile {
  // The change time differs even where a tool restores the modification time.
  const signature = `${info.dev}:${info.ino}:${info.size}:${info.mtimeNs}:${info.ctimeNs}`;
  return { signature, size: Number(info.size) };
}

function identity(info: BigIntStats): string {
  return `${info.dev}:${info.ino}`;
}
