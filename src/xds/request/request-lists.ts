/**
 * The long lists of requests, resource names and `initial_resource_versions`, out of the encoded bytes: the same object
 * for the same content, found without making strings where it can be.
 */
import { isAscii } from 'node:buffer';
import { CtlError } from '../../core/errors.ts';
import type { Memos } from '../../core/memo.ts';
import { LENGTH_DELIMITED, type WireField, WireReader } from '../../protobuf/wire/index.ts';
import { type NameSet, type NameSets, NO_NAMES, type VersionMap } from '../protocol/index.ts';
import type { KnownRun } from './message-assembly.ts';
import { NameListCache } from './name-list-cache.ts';

/**
 * Most resource names in one request. Meshes of 10,000 services with a few ports each stay below; a request of one-byte
 * names at the default receive limit (4 MiB) would have 1.4 million.
 */
export const MAX_NAMES_PER_REQUEST = 200_000;

/** Longest resource name, bytes. Generated names are below 300 (a host name has at most 253). */
export const MAX_NAME_BYTES = 4096;

const NO_VERSIONS: VersionMap = new Map();

interface Sized {
  readonly size: number;
}

/** How lists of a kind are read. */
interface ListKind<V extends Sized> {
  readonly known: NameListCache<V>;
  readonly empty: V;
  /** Throws CtlError invalid_argument for what cannot be an entry, as far as it is seen without reading it. */
  check(reader: WireReader, entry: WireField): void;
}

/** A repeated field of a request while the message is walked over. */
export class ListField<V extends Sized> {
  readonly #kind: ListKind<V>;
  #count = 0;
  /** Where the entries stand; encoders put them side by side. */
  readonly #runs: { start: number; end: number }[] = [];
  /** Lists that were recognised while the message arrived. */
  readonly #known: KnownRun[] = [];
  /** Set when they are a known list and nothing else. */
  #value: V | undefined;

  constructor(kind: ListKind<V>) {
    this.#kind = kind;
  }

  /** Takes a known list. To be called before `take`. */
  takeKnown(run: KnownRun): void {
    const meaning = this.#kind.known.meaningOf(run.form);
    if (meaning === undefined)
      throw new CtlError('internal', `field ${run.field} was taken for a list of another kind`);
    this.#known.push(run);
    this.#value = this.#count === 0 ? meaning.value : undefined;
    this.#add(meaning.count);
  }

  #add(count: number): void {
    this.#count += count;
    if (this.#count > MAX_NAMES_PER_REQUEST)
      throw new CtlError('invalid_argument', `a request may name at most ${MAX_NAMES_PER_REQUEST} resources`);
  }

  /** Takes the entry that the reader has just come to. */
  take(reader: WireReader, entry: WireField): void {
    this.#kind.check(reader, entry);
    this.#value = undefined;
    this.#add(1);
    const last = this.#runs.at(-1);
    if (last?.end === entry.tag) last.end = entry.end;
    else this.#runs.push({ start: entry.tag, end: entry.end });
  }

  /** The list, when the walk is over. */
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
    return this.#kind.known.recognise(entries, this.#count);
  }
}

/** Gives texts out of bytes: when all of it is ASCII it is converted once and cut. */
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

/** An entry: key 1, value 2. */
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

/** The kinds of lists that one server reads. */
export class ListKinds {
  /** The names in a repeated string field. */
  readonly names: ListKind<NameSet>;
  /** A `map<string, string>` field of names and versions. */
  readonly versions: ListKind<VersionMap>;

  constructor(sets: NameSets, memos: Memos) {
    this.names = {
      known: new NameListCache((entries) => readNames(entries, sets), MAX_NAMES_PER_REQUEST, 'lists of names', memos),
      empty: NO_NAMES,
      check: checkName,
    };
    this.versions = {
      known: new NameListCache(readVersions, MAX_NAMES_PER_REQUEST, 'lists of versions', memos),
      empty: NO_VERSIONS,
      check(reader, entry) {
        if (entry.wireType !== LENGTH_DELIMITED) reader.inside(entry);
      },
    };
  }
}
