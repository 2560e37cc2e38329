/**
 * The documents of one configuration source as it sent them, in groups: collections of MCP, or types of configuration
 * over xDS. Several types can have the same kind, for its versions: a document of the first one is in force.
 */
import { CtlError } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import { type ExchangedKind, readResource } from '../../mcp/index.ts';
import {
  type DocumentLimits,
  keyOf,
  type ResourceEvent,
  type ResourceKey,
  type ResourceProblem,
} from '../../resources/index.ts';

/** A resource of a response. */
export interface ReceivedResource {
  readonly name: string;
  readonly version: string;
  /** The message `istio.mcp.v1alpha1.Resource`; may be part of a larger buffer. */
  readonly bytes: Buffer;
  /** Why it is no document of its name, one line. */
  readonly fault?: string;
}

/** What a response changed. */
export interface Applied {
  readonly events: readonly ResourceEvent[];
  /** Why documents of the response are refused, with their names. Others of the response are in force. */
  readonly refused: readonly string[];
  /** The other documents of the response. */
  readonly documents: readonly ResourceKey[];
}

interface Entry {
  readonly version: string;
  readonly bytes: Buffer;
  readonly fault: string | undefined;
  readonly read: ReturnType<typeof readResource>;
}

/** Memory of a document besides its bytes, about. */
const ENTRY_BYTES = 1024;

export interface ReceivedOptions {
  /** Id of the source. */
  readonly source: string;
  readonly limits: DocumentLimits;
  /** Maximum memory of all documents, bytes. */
  readonly maxBytes: number;
  /** The groups in order of precedence, with their kinds. */
  readonly groups: ReadonlyMap<string, ExchangedKind>;
  /** Monotonic ms. */
  readonly now: () => number;
}

export class ReceivedDocuments {
  readonly #options: ReceivedOptions;
  readonly #groups: ReadonlyMap<string, Map<string, Entry>>;
  /** The groups of each kind, in their order. */
  readonly #groupsOf: ReadonlyMap<string, readonly Map<string, Entry>[]>;
  #bytes = 0;

  constructor(options: ReceivedOptions) {
    this.#options = options;
    const groups = [...options.groups].map(([group, { kind }]) => ({ group, kind, entries: new Map<string, Entry>() }));
    this.#groups = new Map(groups.map(({ group, entries }) => [group, entries]));
    const byKind = Map.groupBy(groups, ({ kind }) => kind);
    this.#groupsOf = new Map([...byKind].map(([kind, of]) => [kind, of.map(({ entries }) => entries)]));
  }

  /** The number of documents. */
  get size(): number {
    return [...this.#groups.values()].reduce((sum, entries) => sum + entries.size, 0);
  }

  /** The most documents that a response may have or remove: more need more memory than there is. */
  get maxCount(): number {
    return Math.floor(this.#options.maxBytes / ENTRY_BYTES);
  }

  /** The versions of the group's documents by name; '' for those that are refused, which have to be sent again. */
  versions(group: string): Record<string, string> {
    const entries = [...this.#entriesOf(group)];
    return Object.fromEntries(entries.map(([name, { version, read }]) => [name, 'resource' in read ? version : '']));
  }

  /**
   * The documents of a group are these and no others. Throws CtlError `resource_exhausted` without a change if they
   * need too much memory.
   */
  replace(group: string, resources: readonly ReceivedResource[]): Slices<Applied> {
    const present = new Set(resources.map(({ name }) => name));
    const removed = [...this.#entriesOf(group).keys()].filter((name) => !present.has(name));
    return this.change(group, resources, removed);
  }

  /** Sets some documents of a group and removes others. Throws as {@link replace}. */
  *change(group: string, resources: readonly ReceivedResource[], removed: readonly string[]): Slices<Applied> {
    const entries = this.#entriesOf(group);
    const kind = this.#options.groups.get(group) as ExchangedKind;
    const most = Math.max(resources.length, removed.length);
    if (most > this.maxCount) this.#refuse(`at least ${most * ENTRY_BYTES}`);
    const changed = new Map<string, ReceivedResource | undefined>(removed.map((name) => [name, undefined]));
    const refused: string[] = [];
    const documents: ResourceKey[] = [];
    const note = (name: string, read: Entry['read']): void => {
      if ('resource' in read) documents.push(keyOf(read.resource));
      else refused.push(problemIn(name, read.problem));
    };
    for (const resource of resources) {
      const known = entries.get(resource.name);
      // An equal version is not enough: a source may have lost its numbers.
      if (known === undefined || !isSame(known, resource)) changed.set(resource.name, resource);
      else {
        changed.delete(resource.name);
        entries.set(resource.name, { ...known, version: resource.version });
        note(resource.name, known.read);
      }
      yield;
    }
    this.#reserve(entries, changed);
    const events: ResourceEvent[] = [];
    for (const [name, resource] of changed) {
      const before = this.#inForce(kind, name);
      if (resource === undefined) entries.delete(name);
      else {
        const entry = this.#entryOf(kind, resource);
        entries.set(name, entry);
        note(name, entry.read);
      }
      events.push(...this.#eventsOf(before, this.#inForce(kind, name)));
      yield;
    }
    return { events, refused, documents };
  }

  /** Servers send the same document for each version of its API: it is read and kept once. */
  #entryOf(kind: ExchangedKind, resource: ReceivedResource): Entry {
    const { version, fault } = resource;
    const twin = this.#entriesFor(kind, resource.name).find((each) => isSame(each, resource));
    if (twin !== undefined) return { ...twin, version };
    // A copy, so that the rest of the response is not kept.
    const bytes = Buffer.from(resource.bytes);
    const { source, limits } = this.#options;
    return { version, bytes, fault, read: readResource(bytes, resource, { kind, source, limits }) };
  }

  #entriesOf(group: string): Map<string, Entry> {
    const entries = this.#groups.get(group);
    if (entries === undefined) throw new CtlError('unimplemented', `${group.slice(0, 256)} was not asked for`);
    return entries;
  }

  #reserve(entries: ReadonlyMap<string, Entry>, changed: ReadonlyMap<string, ReceivedResource | undefined>): void {
    let bytes = this.#bytes;
    for (const [name, resource] of changed) bytes += sizeOf(name, resource) - sizeOf(name, entries.get(name));
    if (bytes > this.#options.maxBytes) this.#refuse(String(bytes));
    this.#bytes = bytes;
  }

  #refuse(bytes: string): never {
    const message = `its documents need ${bytes} bytes, of which a source may have at most ${this.#options.maxBytes}`;
    throw new CtlError('resource_exhausted', message);
  }

  /** The document of a name: that of the first group of its kind. */
  #inForce(kind: ExchangedKind, name: string): Entry['read'] | undefined {
    return this.#entriesFor(kind, name)[0]?.read;
  }

  /** The entries of a name, in the order of groups. */
  #entriesFor(kind: ExchangedKind, name: string): Entry[] {
    return (this.#groupsOf.get(kind.kind) ?? []).flatMap((entries) => entries.get(name) ?? []);
  }

  #eventsOf(before: Entry['read'] | undefined, after: Entry['read'] | undefined): ResourceEvent[] {
    if (before === after) return [];
    const eventTime = this.#options.now();
    const events: ResourceEvent[] = [];
    if (before !== undefined && idOf(before) !== (after && idOf(after))) {
      const key = keyIn(before);
      if (key === undefined) events.push({ type: 'resolved', id: idOf(before), eventTime });
      else events.push({ type: 'delete', key, eventTime });
    }
    if (after === undefined) return events;
    if ('resource' in after) events.push({ type: 'set', resource: after.resource, eventTime });
    else events.push({ type: 'invalid', problem: after.problem, eventTime });
    return events;
  }
}

function isSame(entry: Entry, { bytes, fault }: ReceivedResource): boolean {
  return entry.fault === fault && entry.bytes.equals(bytes);
}

function problemIn(name: string, { field, message }: ResourceProblem): string {
  return `${name}: ${field}: ${message}`;
}

function sizeOf(name: string, entry: { readonly bytes: Buffer } | undefined): number {
  return entry === undefined ? 0 : ENTRY_BYTES + 2 * name.length + entry.bytes.length;
}

function keyIn(read: Entry['read']): string | undefined {
  return 'resource' in read ? keyOf(read.resource) : read.problem.key;
}

function idOf(read: Entry['read']): string {
  return 'resource' in read ? keyOf(read.resource) : read.problem.id;
}
