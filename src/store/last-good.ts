/**
 * The state directory: the last good version of each document of the guarded kinds, so that a mistake in a document
 * does not take it out of force at the next start. It is a cache, not a source: an entry is used only when the document
 * of its key is refused.
 *
 * <hash of source and key>.<hash of source and file>.<SHA-256 of the content>.json      mode 0600, in a directory of
 * mode 0700
 *
 * Each source has its own versions: sources may have different documents of one key.
 *
 * An entry whose hash does not match, that others may write, or that cannot be read, is ignored. Files are written in
 * the background, one after another: to a temporary file, which is synced and renamed. Only one program may use a
 * directory.
 */
import { hash } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { z } from 'zod';
import { CtlError, errnoOf, messageOf } from '../core/errors.ts';
import { ASIDE, preparePrivateFolder, readPrivateFile, replacePrivateFile } from '../core/tls/private-files.ts';
import {
  type AnyResource,
  documentLimits,
  isSecurityKind,
  keyOf,
  parseResource,
  type ResourceKey,
} from '../resources/index.ts';
import { storedDocument } from './stored-document.ts';

/** Limits of the whole directory: more documents than any known mesh has, and as many bytes as a log file. */
export const MAX_DOCUMENTS = 40_000;
export const MAX_BYTES = 128 * 1024 * 1024;
/** Limit of one document in bytes: key sets inside policies are the largest part. */
const MAX_DOCUMENT_BYTES = 512 * 1024;
/** The share of both limits that one namespace may use, so that it cannot displace others. */
const NAMESPACE_SHARE = 1 / 4;
/** The share of the documents of the policy component, so that they cannot displace those of the security kinds. */
const COMPONENT_SHARE = 1 / 2;
/** In place of a namespace: no namespace has such a name. */
const COMPONENT = '~policy component';
/** How long changes are collected before they are written. */
const WRITE_DELAY_MS = 100;
/** Number of entries processed per batch: most are on disk already, which is known without I/O. */
const DOCUMENTS_PER_TURN = 32;

const FORMAT = 1;
const ENTRY = z.strictObject({ version: z.literal(FORMAT), file: z.string().optional(), document: z.unknown() });
const NAME = /^([0-9a-f]{32})\.([0-9a-f]{16})\.([0-9a-f]{64})\.json$/;

/** The versions of one source's documents. */
export interface SourceLastGood {
  /** Saves a good version. */
  save(resource: AnyResource): void;
  /** The source no longer has the document. */
  forget(key: ResourceKey): void;
  load(key: ResourceKey): AnyResource | undefined;
  /** Keys of the documents that a file had when it was last valid. */
  ofFile(file: string): readonly ResourceKey[];
}

export interface LastGood {
  of(source: string): SourceLastGood;
  /** Deletes everything except these keys of these sources. */
  retain(keys: ReadonlyMap<string, Iterable<ResourceKey>>): void;
}

export interface LastGoodStore extends LastGood {
  /** Resolves when everything is written, or has failed to be. */
  written(): Promise<void>;
}

export interface LastGoodOptions {
  readonly directory: string;
  readonly warn: (message: string) => void;
  /** Runs once after `ms`. */
  readonly later: (ms: number, run: () => void) => void;
  readonly limits?: { readonly documents: number; readonly bytes: number };
}

interface Entry {
  readonly name: string;
  readonly bytes: number;
  /** Hash of the file of the document. */
  readonly file: string;
  readonly modified: number;
  /** Whose share it uses: its namespace, {@link COMPONENT}. Known for entries that this process has written or read. */
  readonly users?: readonly string[];
}

interface Usage {
  readonly documents: number;
  readonly bytes: number;
}

interface Saved {
  readonly source: string;
  readonly resource: AnyResource;
}

/**
 * A key or a file with its source. The directory source has no prefix: its entries are older than the names of sources.
 */
const identity = (source: string, text: string): string => (source === 'directory' ? text : `${source}\n${text}`);
const idHash = (id: string): string => hash('sha256', id, 'hex').slice(0, 32);
const fileHash = (source: string, file = ''): string => hash('sha256', identity(source, file), 'hex').slice(0, 16);

/**
 * Opens the directory, and creates it when it is missing. If it cannot be used, a warning is logged once, and nothing
 * is stored.
 */
export async function openLastGood(options: LastGoodOptions): Promise<LastGoodStore> {
  const { directory, warn } = options;
  try {
    await preparePrivateFolder(directory);
    return new Directory(options, await entriesOf(directory));
  } catch (error) {
    warn(`${directory} cannot be used (${reasonOf(error)}): ${WITHOUT}`);
    return NOTHING;
  }
}

const WITHOUT = 'after a restart, refused policies deny what they cover instead of keeping their last good version';

const NOTHING: LastGoodStore = {
  of: () => ({ save: () => {}, forget: () => {}, load: () => undefined, ofFile: () => [] }),
  retain: () => {},
  written: () => Promise.resolve(),
};

/** The entries by hash of source and key; if a crash has left two versions, the newer one. */
async function entriesOf(directory: string): Promise<Map<string, Entry>> {
  const entries = new Map<string, Entry>();
  for (const name of await readdir(directory)) {
    const [, key = '', file = ''] = NAME.exec(name) ?? [];
    if (name.startsWith(ASIDE)) await rm(join(directory, name), { force: true });
    if (key === '') continue;
    const { size, mtimeMs } = await stat(join(directory, name)).catch(() => ({ size: 0, mtimeMs: 0 }));
    const known = entries.get(key);
    if (known !== undefined && known.modified >= mtimeMs) continue;
    entries.set(key, { name, bytes: size, file, modified: mtimeMs });
  }
  return entries;
}

class Directory implements LastGoodStore {
  readonly #options: LastGoodOptions;
  readonly #limits: { readonly documents: number; readonly bytes: number };
  /** By hash of source and key. */
  readonly #entries = new Map<string, Entry>();
  /** Usage in total and by namespace. */
  readonly #used = new Map<string | undefined, Usage>([[undefined, { documents: 0, bytes: 0 }]]);
  /** Pending writes (`undefined`: deletions) by source and key; the latest replaces those before. */
  #pending = new Map<string, Saved | undefined>();
  #writing: Promise<void> | undefined;
  #scheduled = false;
  #retained: ReadonlySet<string> | undefined;
  /** True after a warning was logged, until writing works again. */
  #complaint: string | undefined;

  constructor(options: LastGoodOptions, entries: Map<string, Entry>) {
    this.#options = options;
    this.#limits = options.limits ?? { documents: MAX_DOCUMENTS, bytes: MAX_BYTES };
    for (const [id, entry] of entries) this.#put(id, entry);
  }

  of(source: string): SourceLastGood {
    const of = (key: ResourceKey): string => identity(source, key);
    return {
      save: (resource) => this.#note(of(keyOf(resource)), { source, resource }),
      forget: (key) => this.#note(of(key), undefined),
      load: (key) => this.#load(source, key),
      ofFile: (file) => {
        const wanted = fileHash(source, file);
        const found = [...this.#entries.values()].filter((entry) => entry.file === wanted);
        return found.flatMap((entry) => this.#read(entry, source) ?? []).map(keyOf);
      },
    };
  }

  retain(keys: ReadonlyMap<string, Iterable<ResourceKey>>): void {
    const kept = [...keys].flatMap(([source, all]) => [...all].map((key) => idHash(identity(source, key))));
    this.#retained = new Set(kept);
    this.#schedule();
  }

  async written(): Promise<void> {
    while (this.#pending.size > 0 || this.#retained !== undefined || this.#writing !== undefined) {
      await (this.#writing ?? this.#write());
    }
  }

  #load(source: string, key: ResourceKey): AnyResource | undefined {
    const id = identity(source, key);
    if (this.#pending.has(id)) return this.#pending.get(id)?.resource;
    const entry = this.#entries.get(idHash(id));
    if (entry === undefined) return undefined;
    const resource = this.#read(entry, source);
    if (resource !== undefined && keyOf(resource) === key) return resource;
    this.#note(id, undefined);
    return undefined;
  }

  #note(id: string, saved: Saved | undefined): void {
    this.#pending.set(id, saved);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#options.later(WRITE_DELAY_MS, () => void this.#write());
  }

  #write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (this.#pending.size > 0) this.#schedule();
    });
    return this.#writing;
  }

  async #writeAll(): Promise<void> {
    this.#scheduled = false;
    const [pending, retained] = [this.#pending, this.#retained];
    this.#retained = undefined;
    // A version that is being written is no longer pending, but `load` must find it until it is an entry.
    let turn = 0;
    for (const [id, saved] of pending) {
      await this.#bring(idHash(id), saved);
      if (++turn % DOCUMENTS_PER_TURN === 0) await setImmediate();
      if (this.#pending.get(id) === saved) this.#pending.delete(id);
    }
    if (retained !== undefined) {
      for (const id of this.#entries.keys()) if (!retained.has(id)) await this.#remove(id);
    }
  }

  /**
   * Writes or deletes the entry of a document. An older version never stays: it may allow what the newer one forbids.
   */
  async #bring(id: string, saved: Saved | undefined): Promise<void> {
    if (saved === undefined) return this.#remove(id);
    const { source, resource } = saved;
    const text = JSON.stringify({ version: FORMAT, file: resource.origin.file, document: storedDocument(resource) });
    const file = fileHash(source, resource.origin.file);
    const name = `${id}.${file}.${hash('sha256', text, 'hex')}.json`;
    const known = this.#entries.get(id);
    const { namespace } = resource.meta;
    const users = isSecurityKind(resource.kind) ? [namespace] : [namespace, COMPONENT];
    if (known?.name === name) {
      this.#put(id, { ...known, users });
      return;
    }
    const bytes = Buffer.byteLength(text);
    const entry = { name, bytes, file, modified: 0, users };
    try {
      this.#checkQuota(entry, known);
      await replacePrivateFile(this.#options.directory, name, text);
      this.#put(id, entry);
      if (known !== undefined) await rm(join(this.#options.directory, known.name), { force: true });
      this.#complaint = undefined;
    } catch (error) {
      this.#complain(`cannot keep ${keyOf(resource)} (${reasonOf(error)}): ${WITHOUT}`, reasonOf(error));
      await this.#remove(id);
    }
  }

  /** Sets the entry of a document (`undefined`: none), and updates the usage. */
  #put(id: string, entry: Entry | undefined): void {
    const before = this.#entries.get(id);
    if (before !== undefined) this.#count(before, -1);
    if (entry === undefined) this.#entries.delete(id);
    else {
      this.#entries.set(id, entry);
      this.#count(entry, 1);
    }
  }

  #count({ bytes, users = [] }: Entry, times: 1 | -1): void {
    for (const whose of [undefined, ...users]) {
      const used = this.#used.get(whose) ?? { documents: 0, bytes: 0 };
      const after = { documents: used.documents + times, bytes: used.bytes + times * bytes };
      if (whose !== undefined && after.documents === 0) this.#used.delete(whose);
      else this.#used.set(whose, after);
    }
  }

  /** Throws when a new entry in place of the old one would exceed a limit. */
  #checkQuota({ bytes, users = [] }: Entry, known: Entry | undefined): void {
    if (bytes > MAX_DOCUMENT_BYTES)
      throw new CtlError('resource_exhausted', `${bytes} bytes, more than ${MAX_DOCUMENT_BYTES} bytes`);
    const { documents, bytes: most } = this.#limits;
    const fits = (whose: string | undefined, part: number): boolean => {
      const used = this.#used.get(whose) ?? { documents: 0, bytes: 0 };
      const counted = known !== undefined && (whose === undefined || known.users?.includes(whose) === true);
      const [others, otherBytes] = counted
        ? [used.documents - 1, used.bytes - known.bytes]
        : [used.documents, used.bytes];
      return others + 1 <= documents * part && otherBytes + bytes <= most * part;
    };
    if (!fits(undefined, 1))
      throw new CtlError(
        'resource_exhausted',
        `the directory has reached its limit of ${documents} documents or ${most} bytes`,
      );
    for (const whose of users) {
      const share = whose === COMPONENT ? COMPONENT_SHARE : NAMESPACE_SHARE;
      if (fits(whose, share)) continue;
      const who = whose === COMPONENT ? 'the policy component' : `namespace ${whose}`;
      const limit = `${documents * share} documents or ${most * share} bytes`;
      throw new CtlError('resource_exhausted', `${who} has reached its limit of ${limit}`);
    }
  }

  async #remove(id: string): Promise<void> {
    const known = this.#entries.get(id);
    if (known === undefined) return;
    this.#put(id, undefined);
    await rm(join(this.#options.directory, known.name), { force: true }).catch((error: unknown) => {
      this.#complain(`cannot remove ${known.name} (${reasonOf(error)})`, reasonOf(error));
    });
  }

  #complain(message: string, reason: string): void {
    if (this.#complaint === reason) return;
    this.#complaint = reason;
    this.#options.warn(`${this.#options.directory}: ${message}`);
  }

  #read({ name }: Entry, source: string): AnyResource | undefined {
    try {
      return parseEntry(name, readPrivateFile(join(this.#options.directory, name), MAX_DOCUMENT_BYTES), source);
    } catch (error) {
      this.#options.warn(`${join(this.#options.directory, name)} is not used: ${reasonOf(error)}`);
      return undefined;
    }
  }
}

function parseEntry(name: string, text: string, source: string): AnyResource {
  if (NAME.exec(name)?.[3] !== hash('sha256', text, 'hex'))
    throw new CtlError('failed_precondition', 'its content does not match its name');
  const entry = ENTRY.safeParse(JSON.parse(text));
  if (!entry.success) throw new CtlError('invalid_argument', 'it has an unknown format');
  const { file, document } = entry.data;
  // The document did not exceed the limits when it was stored.
  const limits = documentLimits(Number.POSITIVE_INFINITY);
  const origin = { source, ...(file === undefined ? {} : { file }) };
  const parsed = parseResource(document, origin, () => undefined, { limits });
  if ('resource' in parsed) return parsed.resource;
  throw new CtlError(
    'invalid_argument',
    'problem' in parsed ? `its document is refused: ${parsed.problem.message}` : 'it holds no policy',
  );
}

function reasonOf(error: unknown): string {
  return errnoOf(error) ?? messageOf(error);
}
