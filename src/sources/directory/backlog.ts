/**
 * Changed files that wait to be read, by the namespace of their documents: namespaces take turns by the time that their
 * files took. A file of several namespaces counts for the first of them.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { ReadingQueue } from '../reading/reading-queue.ts';
import type { ReadingShares } from '../reading/reading-shares.ts';
import type { FileChange } from './reader.ts';

/** Where the namespace of a new file is looked for: the beginning of its first document, bytes. */
const SEARCHED_BYTES = 4096;
const NAMESPACE = /\bnamespace["']?:\s*["']?([a-z0-9][-a-z0-9]{0,62})/;
/** Of files without any. */
const DEFAULT_NAMESPACE = 'default';

export interface NextFile {
  readonly change: FileChange;
  readonly namespace: string;
}

export interface FileBacklogOptions {
  readonly shares: ReadingShares;
  /** The namespace of a file as it was read last; undefined when it is not known. */
  readonly namespaceOf: (path: string) => string | undefined;
}

export class FileBacklog {
  readonly #options: FileBacklogOptions;
  readonly #queue: ReadingQueue<FileChange>;

  constructor(options: FileBacklogOptions) {
    this.#options = options;
    this.#queue = new ReadingQueue(options.shares);
  }

  /**
   * Missing files come after the files that were found with them, which show whether they were renamed. A file that
   * changes again while it waits keeps its place, and the time at which that was noticed first.
   */
  add(changes: readonly FileChange[]): void {
    for (const change of missingLast(changes)) {
      const { path } = change;
      const before = this.#queue.get(path);
      if (before !== undefined && change.file === undefined) this.#queue.delete(path);
      const eventTime = Math.min(change.eventTime, before?.eventTime ?? change.eventTime);
      this.#queue.set(path, this.#namespaceOf(change), { ...change, eventTime });
    }
  }

  next(): NextFile | undefined {
    const waiting = this.#queue.next();
    return waiting && { change: waiting.item, namespace: waiting.namespace };
  }

  /** In how many ms the next file can be read; undefined when none waits. */
  get waitMs(): number | undefined {
    return this.#queue.waitMs;
  }

  /** Whether a change of the file would have to wait for others of its namespace. */
  isDelayed(path: string): boolean {
    const namespace = this.#options.namespaceOf(path);
    return (
      this.#queue.get(path) !== undefined || (namespace !== undefined && this.#options.shares.restOf(namespace) > 0)
    );
  }

  #namespaceOf({ path, file }: FileChange): string {
    const known = this.#options.namespaceOf(path);
    if (known !== undefined) return known;
    return (file === undefined ? undefined : namespaceIn(path)) ?? DEFAULT_NAMESPACE;
  }
}

export function missingLast(changes: readonly FileChange[]): readonly FileChange[] {
  return [...changes.filter(({ file }) => file !== undefined), ...changes.filter(({ file }) => file === undefined)];
}

/** The first namespace that a file names. A wrong one changes the order of reading, and nothing else. */
function namespaceIn(path: string): string | undefined {
  try {
    const file = openSync(path, 'r');
    try {
      const buffer = Buffer.alloc(SEARCHED_BYTES);
      const length = readSync(file, buffer, 0, SEARCHED_BYTES, 0);
      return NAMESPACE.exec(buffer.toString('latin1', 0, length))?.[1];
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
}
