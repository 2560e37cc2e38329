/**
 * The long lists of requests: resource names and `initial_resource_versions`. Equal content is the same object, which
 * is found without decoding strings if possible.
 */
import { isAscii } from 'node:buffer';
import { CtlError } from '../../core/errors.ts';
import type { Memos } from '../../core/memo.ts';
import { LENGTH_DELIMITED, type WireField, WireReader } from '../../protobuf/wire/index.ts';
import { type NameSet, type NameSets, NO_NAMES, type VersionMap } from '../protocol/index.ts';
import type { KnownRun } from './message-assembly.ts';
import { NameListCache } from './name-list-cache.ts';

/**
 * Maximum number of resource names in one request: more than a mesh of 10,000 services with a few ports each needs. A
 * request of one-byte names at the default receive limit (4 MiB) would have 1.4 million.
 */
export const MAX_NAMES_PER_REQUEST = 100_000;

/** Maximum length of a resource name, bytes. Generated names are below 300 (a host name has at most 253). */
export const MAX_NAME_BYTES = 4096;

const NO_VERSIONS: VersionMap = new Map();

interface Sized {
  readonly size: number;
}

/** How lists of a kind are read. */
interface ListKind<V extends Sized> {
  readonly known: NameListCache<V>;
  readonly empty: V;
  /** Checks an entry without decoding it. Throws CtlError invalid_argument. */
  check(reader: WireReader, entry: WireField): void;
}

/** A repeated field of a request while the message is decoded. */
export class ListField<V extends Sized> {
  readonly #kind: ListKind<V>;
  #count = 0;
  /** Ranges of entries; encoders write them side by side. */
  readonly #runs: { start: number; end: number }[] = [];
  /** Lists that were recognised while the message arrived. */
  readonly #known: KnownRun[] = [];
  /** Set while the field is one known list and nothing else. */
  #value: V | undefined;

  constructor(kind: ListKind<V>) {
    this.#kind = kind;
  }

  /** Adds a known list. To be called before `take`. */
  takeKnown(run: KnownRun): void {
    const known = this.#kind.known.valueOf(run.form);
    if (known === undefined) throw new CtlError('internal', `field ${run.field} is a list of a different kind`);
    this.#known.push(run);
    this.#value = this.#count === 0 ? known.value : undefined;
    this.#add(known.count);
  }

  #add(count: number): void {
    this.#count += count;
    if (this.#count > MAX_NAMES_PER_REQUEST)
      throw new CtlError('invalid_argument', `a request may name at most ${MAX_NAMES_PER_REQUEST} resources`);
  }

  /** Adds the entry that the reader is at. */
  take(reader: WireReader, entry: WireField): void {
    this.#kind.check(reader, entry);
    this.#value = undefined;
    this.#add(1);
    const last = this.#runs.at(-1);
    if (last?.end === entry.tag) last.end = entry.end;
    else this.#runs.push({ start: entry.tag, end: entry.end });
  }

  /** The list, after the last entry. */
  value(message: Buffer): V {
    if (this.#count === 0) return this.#kind.empty;
    if (this.#value !== undefined) return this.#value;
    const runs = [
      ...this.#known.map(({ at, form }) => ({ at, bytes: form.bytes })),
      ...this.#runs.map(({ start, end }) => ({ at: start, bytes: message.subarray(start, end) })),
    ].sort((a, b) => a.at - b.at);
    const [only] = runs;
    const entries =
      runs.length === 1 && only !== undefined ? only.bytes : Buffer.concat(runs.map(({ bytes }) => bytes));
    return this.#kind.known.recognize(entries, this.#count);
  }
}

/** Reads strings from bytes: when all of them are ASCII, these are converted once and cut. */
function textReader(bytes: Buffer): (field: WireField) => string {
  if (!isAscii(bytes)) return (field) => bytes.toString('utf8', field.start, field.end);
  const all = bytes.toString('latin1');
  return (field) => all.substring(field.start, field.end);
}

function checkText(reader: WireReader, field: WireField): void {
  if (field.wireType !== LENGTH_DELIMITED) reader.text(field);
}

function checkName(reader: WireReader, field: WireField): void {
  checkText(reader, field);
  if (field.end - field.start > MAX_NAME_BYTES)
    throw new CtlError('invalid_argument', `a resource name may have at most ${MAX_NAME_BYTES} bytes`);
}

function readNames(entries: Buffer, sets: NameSets): NameSet {
  const text = textReader(entries);
  const reader = new WireReader(entries);
  const names: string[] = [];
  for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
    checkName(reader, entry);
    names.push(text(entry));
  }
  return sets.of(names);
}

function readVersions(entries: Buffer): VersionMap {
  const text = textReader(entries);
  const reader = new WireReader(entries);
  const versions = new Map<string, string>();
  for (let entry = reader.next(); entry !== undefined; entry = reader.next())
    readVersion(reader.inside(entry), text, versions);
  return versions;
}

/** An entry of a map: key 1, value 2. */
function readVersion(reader: WireReader, text: (field: WireField) => string, versions: Map<string, string>): void {
  let name = '';
  let version = '';
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) {
      checkName(reader, field);
      name = text(field);
    } else if (field.number === 2) {
      checkText(reader, field);
      version = text(field);
    }
  }
  versions.set(name, version);
}

/** The kinds of lists in the requests of one server. */
export class ListKinds {
  /** The names in a repeated string field. */
  readonly names: ListKind<NameSet>;
  /** A `map<string, string>` field of names and versions. */
  readonly versions: ListKind<VersionMap>;

  constructor(sets: NameSets, memos: Memos) {
    this.names = {
      known: new NameListCache(
        (entries) => readNames(entries, sets),
        { interned: true, maxEntries: MAX_NAMES_PER_REQUEST, name: 'lists of names' },
        memos,
      ),
      empty: NO_NAMES,
      check: checkName,
    };
    this.versions = {
      known: new NameListCache(
        readVersions,
        { interned: false, maxEntries: MAX_NAMES_PER_REQUEST, name: 'lists of versions' },
        memos,
      ),
      empty: NO_VERSIONS,
      check(reader, entry) {
        if (entry.wireType !== LENGTH_DELIMITED) reader.inside(entry);
      },
    };
  }
}
