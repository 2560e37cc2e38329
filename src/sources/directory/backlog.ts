/**
 * Changed files that wait to be read, by the class and the namespace of their documents (`reading-queue.ts`). A file of
 * several namespaces counts for the first of them, one of several classes for the first class.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import type { Slicer } from '../../core/slicer.ts';
import { READING_CLASSES, type ReadingClass, type ReadingPlace, readingClassOf } from '../pacing/reading-class.ts';
import { ReadingQueue } from '../pacing/reading-queue.ts';
import type { ReadingShares } from '../pacing/reading-shares.ts';
import { READ_FLAGS } from './read-file.ts';
import type { FileChange } from './reader.ts';

/** Number of bytes at the beginning of a file that are searched for its namespace and kinds. */
const SEARCHED_BYTES = 64 * 1024;
const NAMESPACE = /^[^#\n]*\bnamespace["']?:\s*["']?([a-z0-9][-a-z0-9]{0,62})/m;
const KINDS = /\bkind["']?:\s*["']?([A-Za-z]{1,63})/g;
/** The namespace of files that do not name one. */
const DEFAULT_NAMESPACE = 'default';
/** Not the name of a namespace: the time of files without identifiable documents is charged to it. */
const NO_NAMESPACE = '';

export interface NextFile {
  readonly change: FileChange;
  readonly place: ReadingPlace;
}

export interface FileBacklogOptions {
  readonly shares: ReadingShares;
  /** The namespace of a file as it was read last; undefined when it is not known. */
  readonly namespaceOf: (path: string) => string | undefined;
  /** The kinds of the documents of a file as it was read last. */
  readonly kindsOf: (path: string) => Iterable<string>;
}

export class FileBacklog {
  readonly #options: FileBacklogOptions;
  readonly #queue: ReadingQueue<FileChange>;
  readonly #buffer = Buffer.alloc(SEARCHED_BYTES);

  constructor(options: FileBacklogOptions) {
    this.#options = options;
    this.#queue = new ReadingQueue(options.shares);
  }

  /**
   * Missing files are read after the files that were found in the same scan, which show whether a file was renamed. A
   * file that changes again while it waits keeps its place and the time of its first change. A file with policies is
   * read after everything that changed before it, so that a policy that was moved to another file is in force there
   * first.
   */
  async add(changes: readonly FileChange[], slicer: Slicer): Promise<void> {
    for (const change of missingLast(changes)) {
      await slicer.pause();
      const { path } = change;
      const before = this.#queue.get(path);
      const place = this.#placeOf(change);
      if (change.file === undefined || place.readingClass === 'security') this.#queue.delete(path);
      const eventTime = Math.min(change.eventTime, before?.eventTime ?? change.eventTime);
      this.#queue.set(path, place, { ...change, eventTime });
    }
  }

  next(): NextFile | undefined {
    const waiting = this.#queue.next();
    return waiting && { change: waiting.item, place: waiting.place };
  }

  /** A file was read: the time is charged to the namespace and class of its documents. */
  charge({ change: { path }, place: { readingClass } }: NextFile, milliseconds: number): void {
    const namespace = this.#options.namespaceOf(path) ?? NO_NAMESPACE;
    this.#options.shares.charge({ namespace, readingClass }, milliseconds);
  }

  /** In how many ms the next file can be read; undefined when none waits. */
  get waitMs(): number | undefined {
    return this.#queue.waitMs;
  }

  /** Whether a change of the file would have to wait for others of its namespace. */
  isDelayed(path: string): boolean {
    if (this.#queue.get(path) !== undefined) return true;
    const namespace = this.#options.namespaceOf(path);
    if (namespace === undefined || this.#options.shares.restOf(namespace) === 0) return false;
    return firstClass(this.#options.kindsOf(path)) === 'other';
  }

  /** The new content of a file may change its place in the order, but not the namespace that its time is charged to. */
  #placeOf({ path, file }: FileChange): ReadingPlace {
    const text = file === undefined ? '' : beginningOf(path, this.#buffer);
    const kinds = [...this.#options.kindsOf(path), ...text.matchAll(KINDS).map(([, kind = '']) => kind)];
    const namespace = this.#options.namespaceOf(path) ?? NAMESPACE.exec(text)?.[1] ?? DEFAULT_NAMESPACE;
    return { namespace, readingClass: firstClass(kinds) };
  }
}

export function missingLast(changes: readonly FileChange[]): readonly FileChange[] {
  return [...changes.filter(({ file }) => file !== undefined), ...changes.filter(({ file }) => file === undefined)];
}

function firstClass(kinds: Iterable<string>): ReadingClass {
  const classes = new Set<ReadingClass>();
  for (const kind of kinds) classes.add(readingClassOf(kind));
  return READING_CLASSES.find((each) => classes.has(each)) ?? 'other';
}

/** Empty where the file cannot be read. */
function beginningOf(path: string, buffer: Buffer): string {
  try {
    const file = openSync(path, READ_FLAGS);
    try {
      const length = readSync(file, buffer, 0, buffer.length, 0);
      return buffer.toString('latin1', 0, length);
    } finally {
      closeSync(file);
    }
  } catch {
    return '';
  }
}
