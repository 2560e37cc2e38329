/**
 * Compares the files of a directory with their last reading, reads those that differ, and keeps the ledger from which
 * the source's events come. When a file looks incomplete, the settling policy decides whether its content counts.
 */
import { CtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { Slicer } from '../../core/slicer.ts';
import {
  apiVersionsOf,
  type DocumentLimits,
  ignoredDocument,
  type ParsedResource,
  type ResourceEvent,
  SERVICE_API_KINDS,
  writtenKind,
} from '../../resources/index.ts';
import { indexingTime } from '../pacing/indexing-time.ts';
import { type FilePart, SOURCE } from './documents.ts';
import { createIgnoredKinds, newlyIgnored } from './ignored-kinds.ts';
import { createLedger } from './ledger.ts';
import { readResourceFile, type UnreadableFile } from './read-file.ts';
import { type Scan, type ScannedFile, statBelow } from './scan.ts';
import type { SettlingPolicy } from './settling.ts';

interface KnownFile {
  readonly signature: string;
  readonly parts: readonly FilePart[];
}

/** A file that differs from its last reading. */
export interface FileChange {
  readonly path: string;
  /** Undefined when the file is missing. */
  readonly file: ScannedFile | undefined;
  /** When the change was noticed, monotonic ms. */
  readonly eventTime: number;
}

/** Changes of single paths, and the time of the first change that needs a scan of the tree. */
export interface PathChanges {
  readonly changes: readonly FileChange[];
  readonly scanSince: number | undefined;
}

export interface DirectoryReaderOptions {
  /** Absolute path of the tree. */
  readonly root: string;
  readonly log: Log;
  readonly settling: SettlingPolicy;
  /** Whether documents of the Gateway API are read. */
  readonly serviceApis: boolean;
  readonly limits: DocumentLimits;
  /** Called with the number of new ignored documents that were perhaps meant for the mesh. */
  readonly onIgnored?: (documents: number) => void;
}

export class DirectoryReader {
  readonly #root: string;
  readonly #settling: SettlingPolicy;
  readonly #serviceApis: boolean;
  readonly #limits: DocumentLimits;
  readonly #onIgnored: (documents: number) => void;
  readonly #ledger = createLedger();
  readonly #ignored: ReturnType<typeof createIgnoredKinds>;
  readonly #known = new Map<string, KnownFile>();
  /** Paths that are not followed, as of the last scan. */
  #refused: ReadonlySet<string> = new Set();

  constructor(options: DirectoryReaderOptions) {
    this.#root = options.root;
    this.#settling = options.settling;
    this.#serviceApis = options.serviceApis;
    this.#limits = options.limits;
    this.#onIgnored = options.onIgnored ?? (() => {});
    this.#ignored = createIgnoredKinds(options.log);
  }

  /** Number of files that were read and exist. */
  get fileCount(): number {
    return this.#known.size;
  }

  /** The namespace of the first document of a file, as it was read last. */
  namespaceOf(path: string): string | undefined {
    return this.#identities(path).next().value?.namespace;
  }

  /** The kinds of the documents of a file, as it was read last. */
  *kindsOf(path: string): Iterable<string> {
    for (const { kind } of this.#identities(path)) yield kind;
  }

  *#identities(path: string): Generator<{ readonly kind: string; readonly namespace: string }, undefined> {
    for (const { found } of this.#known.get(path)?.parts ?? []) {
      for (const document of found) {
        if ('resource' in document) {
          yield { kind: document.resource.kind, namespace: document.resource.meta.namespace };
        } else if ('problem' in document && document.problem.key !== undefined) {
          const [kind = '', namespace = ''] = document.problem.key.split('/', 2);
          yield { kind, namespace };
        }
      }
    }
  }

  /** The time that it takes to index the documents of a file, as it was read last, ms. */
  indexingTimeOf(path: string): number {
    const found = (this.#known.get(path)?.parts ?? []).flatMap((part) => part.found);
    return found.reduce((total, document) => total + indexingTime(document), 0);
  }

  /** The files that differ in a scan of the whole tree. Paths that the scan refused become problems. */
  changesIn(scan: Scan, eventTime: number): FileChange[] {
    this.#noteRefused(scan.refused);
    const changes: FileChange[] = [];
    for (const [path, file] of scan.files) this.#compare(path, file, eventTime, changes);
    for (const path of this.#known.keys()) {
      const isHidden = scan.refused.has(path) || scan.unreadable.some((directory) => path.startsWith(`${directory}/`));
      if (isHidden) this.#settling.clear(path);
      else if (!scan.files.has(path)) changes.push({ path, file: undefined, eventTime });
    }
    return changes;
  }

  /** The files that differ among `paths` (path → time of its event). */
  async changesAmong(paths: ReadonlyMap<string, number>, slicer: Slicer): Promise<PathChanges> {
    const changes: FileChange[] = [];
    let scanSince: number | undefined;
    for (const [path, eventTime] of paths) {
      await slicer.pause();
      const file = await statBelow(this.#root, path);
      if (file === 'unknown') this.#settling.clear(path);
      // The target of a link may have to be watched now, which the scan does.
      if (file === 'unknown' || file === 'detour') scanSince ??= eventTime;
      else this.#compare(path, file, eventTime, changes);
    }
    return { changes, scanSince };
  }

  #compare(path: string, file: ScannedFile | undefined, eventTime: number, changes: FileChange[]): void {
    if (this.#known.get(path)?.signature === file?.signature) this.#settling.clear(path);
    else changes.push({ path, file, eventTime });
  }

  /** A path that is not followed is a problem for as long as it exists. */
  #noteRefused(paths: ReadonlyMap<string, string>): void {
    for (const path of this.#refused) if (!paths.has(path) && !this.#known.has(path)) this.#ledger.remove(path);
    this.#refused = new Set(paths.keys());
    for (const [path, message] of paths) {
      const problem = { id: path, origin: { source: SOURCE, file: path }, field: '', message };
      this.#ledger.put(path, { unreadable: problem });
    }
  }

  /**
   * Reads a changed file into the ledger. @param isStart whether this is the first reading, without an earlier state
   * that could stay in force
   * @returns when the change was first noticed, if it counts; `undefined` while the file may be incomplete
   * @throws CtlError at start when the content of a file is unknown
   */
  async take(change: FileChange, slicer: Slicer, isStart: boolean): Promise<number | undefined> {
    const { path, file } = change;
    const eventTime = this.#settling.firstEventTime(path, change.eventTime);
    if (file === undefined) return this.#takeMissing(path, eventTime) ? eventTime : undefined;
    const read = await slicer.run(readResourceFile(path, file.size, this.#known.get(path)?.parts, this.#limits));
    const counts =
      'problem' in read
        ? this.#takeUnreadable(path, file, read, eventTime, isStart)
        : await this.#takeParts(path, file, read.parts, eventTime, isStart, slicer);
    return counts ? eventTime : undefined;
  }

  #takeMissing(path: string, eventTime: number): boolean {
    if (!this.#ledger.isGivenElsewhere(path) && !this.#settling.acceptsMissing(path, eventTime)) return false;
    this.#settling.clear(path);
    this.#known.delete(path);
    this.#ledger.remove(path);
    return true;
  }

  #takeUnreadable(
    path: string,
    file: ScannedFile,
    { problem, state }: UnreadableFile,
    eventTime: number,
    isStart: boolean,
  ): boolean {
    if (isStart && state === 'unread') {
      throw new CtlError('failed_precondition', problem.message, { ...problem.origin });
    }
    // A file that is being copied may end within a character, which is not valid UTF-8.
    if (!isStart && !this.#settling.acceptsUnreadable(path, file, eventTime)) return false;
    this.#known.set(path, { signature: file.signature, parts: this.#known.get(path)?.parts ?? [] });
    this.#ledger.put(path, { unreadable: problem });
    return true;
  }

  async #takeParts(
    path: string,
    file: ScannedFile,
    parts: readonly FilePart[],
    eventTime: number,
    isStart: boolean,
    slicer: Slicer,
  ): Promise<boolean> {
    await slicer.pause();
    const documents = this.#documentsIn(parts);
    const looksIncomplete = !isStart && this.#ledger.isSuspicious(path, documents);
    await slicer.pause();
    if (looksIncomplete && !this.#settling.acceptsIncomplete(path, file, eventTime)) return false;
    this.#settling.clear(path);
    const ignored = newlyIgnored(this.#documentsIn(this.#known.get(path)?.parts ?? []), documents);
    if (ignored > 0) this.#onIgnored(ignored);
    this.#known.set(path, { signature: file.signature, parts });
    this.#ignored.note(documents);
    this.#ledger.put(path, { documents });
    return true;
  }

  #documentsIn(parts: readonly FilePart[]): readonly ParsedResource[] {
    const found = parts.flatMap((part) => part.found);
    return this.#serviceApis ? found : found.map(withoutServiceApis);
  }

  /** Events for all that has changed since the last call. */
  flush(eventTime: number): ResourceEvent[] {
    this.#ignored.tell();
    return this.#ledger.flush(eventTime);
  }
}

/** Documents of the Gateway API as documents of a kind that is not read. */
function withoutServiceApis(document: ParsedResource): ParsedResource {
  if ('ignored' in document) return document;
  const { origin } = 'resource' in document ? document.resource : document.problem;
  const name = 'resource' in document ? document.resource.kind : document.problem.key?.split('/')[0];
  const kind = SERVICE_API_KINDS.find((each) => each === name);
  return kind === undefined
    ? document
    : { ignored: ignoredDocument(apiVersionsOf(kind)[0] ?? '', writtenKind(kind), origin) };
}
