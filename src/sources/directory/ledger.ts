/**
 * Records which file defines which resource, and what was reported to the store. It does no I/O: files may appear and
 * disappear in any order, and the resulting events describe how the state of the whole directory has changed.
 *
 * - If several files define a key, the first of them in path order is used; the others are problems until that file is
 *   deleted.
 * - The last good version of a document that becomes invalid stays in force, and so does everything missing from a file
 *   in which some document cannot be identified (it may be that one).
 */
import type {
  AnyResource,
  ParsedResource,
  ResourceEvent,
  ResourceKey,
  ResourceProblem,
} from '../../resources/index.ts';
import { duplicate, type FileRecord, type Provision, recordOf, withMissing } from './file-record.ts';

/** The result of reading a file. If it is unreadable, its previous documents stay in force. */
export type FileReading = { readonly documents: readonly ParsedResource[] } | { readonly unreadable: ResourceProblem };

export interface Ledger {
  /**
   * Whether a reading looks like a file that is still being written: resources are missing, or a document cannot be
   * identified.
   */
  isSuspicious(file: string, documents: readonly ParsedResource[]): boolean;
  /** Whether other files define everything that this file defines, unchanged, as after a rename. */
  isGivenElsewhere(file: string): boolean;
  put(file: string, reading: FileReading): void;
  remove(file: string): void;
  /** Events for everything that has changed since the last call, in key order. */
  flush(eventTime: number): ResourceEvent[];
}

export function createLedger(): Ledger {
  return new FileLedger();
}

class FileLedger implements Ledger {
  readonly #files = new Map<string, FileRecord>();
  /** Files that have a document for a key. */
  readonly #providers = new Map<ResourceKey, Set<string>>();
  readonly #sent = new Map<ResourceKey, AnyResource>();
  #sentProblems: ReadonlyMap<string, ResourceProblem> = new Map();
  /** The few files that every flush has to examine: those with problems, or with keys that other files define too. */
  readonly #troubled = new Set<string>();
  readonly #shared = new Set<ResourceKey>();
  readonly #touched = new Set<ResourceKey>();

  isSuspicious(file: string, documents: readonly ParsedResource[]): boolean {
    const previous = this.#files.get(file);
    const { next, incomplete } = recordOf(file, documents, previous);
    // A half-written policy would be replaced by the strictest policy.
    const refused = documents.some((each) => 'problem' in each && each.problem.substitutes !== undefined);
    return refused || incomplete || [...(previous?.provisions.keys() ?? [])].some((key) => !next.provisions.has(key));
  }

  isGivenElsewhere(file: string): boolean {
    const given = [...(this.#files.get(file)?.provisions ?? [])];
    return given.every(([key, { resource }]) =>
      this.#providersOf(key).some((other) => {
        const same = other === file ? undefined : this.#provision(other, key)?.resource;
        return same !== undefined && same.fingerprint === resource?.fingerprint;
      }),
    );
  }

  put(file: string, reading: FileReading): void {
    const previous = this.#files.get(file);
    if ('unreadable' in reading) {
      const provisions = previous?.provisions ?? new Map<ResourceKey, Provision>();
      const kept = [...provisions.keys()];
      this.#record(file, { provisions, problems: [{ index: 0, problem: { ...reading.unreadable, kept } }] });
      return;
    }
    const { next, incomplete } = recordOf(file, reading.documents, previous);
    const missing = [...(previous?.provisions ?? [])].filter(([key]) => !next.provisions.has(key));
    this.#record(file, incomplete ? withMissing(next, missing) : next);
  }

  remove(file: string): void {
    this.#record(file, undefined);
  }

  flush(eventTime: number): ResourceEvent[] {
    const { events, setOrDeleted } = this.#resourceEvents(eventTime);
    // Problems come last: a `set` ends its key's problem, and a last good version may be set along with the problem.
    this.#addProblemEvents(eventTime, setOrDeleted, events);
    return events;
  }

  /** Replaces what is recorded of a file; `next` is undefined for a file that was deleted. */
  #record(file: string, next: FileRecord | undefined): void {
    const before = this.#files.get(file)?.provisions ?? new Map<ResourceKey, Provision>();
    const after = next?.provisions ?? new Map<ResourceKey, Provision>();
    for (const [key, provision] of before) {
      if (after.get(key)?.resource !== provision.resource) this.#touched.add(key);
      if (!after.has(key)) this.#removeProvider(key, file);
    }
    for (const key of after.keys()) if (!before.has(key)) this.#addProvider(key, file);
    if (next === undefined || next.problems.length === 0) this.#troubled.delete(file);
    else this.#troubled.add(file);
    if (next === undefined) this.#files.delete(file);
    else this.#files.set(file, next);
  }

  #addProvider(key: ResourceKey, file: string): void {
    this.#touched.add(key);
    const all = this.#providers.get(key) ?? new Set<string>();
    this.#providers.set(key, all.add(file));
    if (all.size > 1) this.#shared.add(key);
  }

  #removeProvider(key: ResourceKey, file: string): void {
    const rest = this.#providers.get(key);
    rest?.delete(file);
    if (rest?.size === 0) this.#providers.delete(key);
    if (rest?.size === 1) this.#shared.delete(key);
  }

  /** The files that have a document for a key, in order of precedence. */
  #providersOf(key: ResourceKey): string[] {
    return [...(this.#providers.get(key) ?? [])].sort();
  }

  #provision(file: string, key: ResourceKey): Provision | undefined {
    return this.#files.get(file)?.provisions.get(key);
  }

  /** The version of a key that is in force. */
  #inForce(key: ResourceKey): AnyResource | undefined {
    for (const file of this.#providersOf(key)) {
      const resource = this.#provision(file, key)?.resource;
      if (resource !== undefined) return resource;
    }
    return undefined;
  }

  #resourceEvents(eventTime: number): { events: ResourceEvent[]; setOrDeleted: ReadonlySet<string> } {
    const events: ResourceEvent[] = [];
    const setOrDeleted = new Set<string>();
    for (const key of [...this.#touched].sort()) {
      const resource = this.#inForce(key);
      if (isSameVersion(resource, this.#sent.get(key))) continue;
      setOrDeleted.add(key);
      if (resource === undefined) {
        this.#sent.delete(key);
        events.push({ type: 'delete', key, eventTime });
      } else {
        this.#sent.set(key, resource);
        events.push({ type: 'set', resource, eventTime });
      }
    }
    this.#touched.clear();
    return { events, setOrDeleted };
  }

  /** A problem is sent when it is new or has changed, and after each event of its key. */
  #addProblemEvents(eventTime: number, setOrDeleted: ReadonlySet<string>, events: ResourceEvent[]): void {
    const current = this.#currentProblems();
    for (const id of this.#sentProblems.keys()) {
      if (!current.has(id)) events.push({ type: 'resolved', id, eventTime });
    }
    for (const [id, problem] of current) {
      if (setOrDeleted.has(id) || !isSameProblem(this.#sentProblems.get(id), problem)) {
        events.push({ type: 'invalid', problem, eventTime });
      }
    }
    this.#sentProblems = current;
  }

  #currentProblems(): Map<string, ResourceProblem> {
    const problems = new Map<string, ResourceProblem>();
    for (const file of this.#troubled) {
      for (const { index, problem } of this.#files.get(file)?.problems ?? []) {
        const isAmbiguous = problem.key !== undefined && this.#hasOtherDocument(problem.key, file, index);
        const id = isAmbiguous && problem.id === problem.key ? `${file}#${index}` : problem.id;
        problems.set(id, { ...problem, id });
      }
    }
    for (const key of this.#shared) this.#addDuplicates(key, problems);
    return problems;
  }

  /** Whether another document has the same key: each is then identified by its position. */
  #hasOtherDocument(key: ResourceKey, file: string, index: number): boolean {
    return (this.#providers.get(key)?.size ?? 0) > 1 || this.#provision(file, key)?.index !== index;
  }

  #addDuplicates(key: ResourceKey, problems: Map<string, ResourceProblem>): void {
    const inForce = this.#inForce(key)?.origin;
    for (const file of this.#providersOf(key)) {
      const provision = this.#provision(file, key);
      if (provision?.resource === undefined || file === inForce?.file) continue;
      const id = `${file}#${provision.index}`;
      problems.set(id, duplicate(id, key, provision.origin, inForce));
    }
  }
}

/** The same content from the same location: no event, even if it was parsed again. */
function isSameVersion(a: AnyResource | undefined, b: AnyResource | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.fingerprint !== b.fingerprint || a.origin.file !== b.origin.file || a.origin.line !== b.origin.line)
    return false;
  return a.warnings === b.warnings || JSON.stringify(a.warnings) === JSON.stringify(b.warnings);
}

function isSameProblem(a: ResourceProblem | undefined, b: ResourceProblem): boolean {
  if (a?.message !== b.message || a.field !== b.field || a.origin.line !== b.origin.line || a.key !== b.key)
    return false;
  return JSON.stringify([a.substitutes, a.kept]) === JSON.stringify([b.substitutes, b.kept]);
}
