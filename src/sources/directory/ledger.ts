/**
 * Which file gives which resource, and what the store was told. Pure bookkeeping: files come and go in any order, and
 * the events that come out say how the directory's state as a whole has changed.
 *
 * - A key in several files is given by the first of them in path order; the others are problems until that one is gone.
 * - A document that has become invalid keeps its last good version; so does everything missing from a file in which
 *   some document cannot be told (it may be that one).
 */
import {
  type AnyResource,
  keyOf,
  type ParsedResource,
  type ResourceEvent,
  type ResourceKey,
  type ResourceOrigin,
  type ResourceProblem,
} from '../../resources/index.ts';

/** What a reading of a file gave. `unreadable` keeps all that it gave before. */
export type FileReading = { readonly documents: readonly ParsedResource[] } | { readonly unreadable: ResourceProblem };

export interface Ledger {
  /**
   * Whether a reading looks like a file that is still being written: resources are missing, or a document cannot be
   * told.
   */
  isSuspicious(file: string, documents: readonly ParsedResource[]): boolean;
  /** Whether other files hold all that this one gives, unchanged: as when it was renamed. */
  isGivenElsewhere(file: string): boolean;
  put(file: string, reading: FileReading): void;
  remove(file: string): void;
  /** Events for everything that has changed since the last call, in key order. */
  flush(eventTime: number): ResourceEvent[];
}

/** What one file says of one key. */
interface Provision {
  readonly index: number;
  readonly origin: ResourceOrigin;
  /** The good version, or the last good one of a document that is not good now. */
  readonly resource: AnyResource | undefined;
}

interface FileRecord {
  readonly provisions: ReadonlyMap<ResourceKey, Provision>;
  readonly problems: readonly { readonly index: number; readonly problem: ResourceProblem }[];
}

export function createLedger(): Ledger {
  const files = new Map<string, FileRecord>();
  /** Files that mention a key. */
  const providers = new Map<ResourceKey, Set<string>>();
  const told = new Map<ResourceKey, AnyResource>();
  const toldProblems = new Map<string, ResourceProblem>();
  /** Files with problems, and keys in several files: the few that have to be looked at on every flush. */
  const troubled = new Set<string>();
  const shared = new Set<ResourceKey>();
  const touched = new Set<ResourceKey>();

  const record = (file: string, next: FileRecord | undefined): void => {
    const before = files.get(file)?.provisions ?? new Map<ResourceKey, Provision>();
    const after = next?.provisions ?? new Map<ResourceKey, Provision>();
    for (const [key, provision] of before) {
      if (after.get(key)?.resource !== provision.resource) touched.add(key);
      if (after.has(key)) continue;
      const rest = providers.get(key);
      rest?.delete(file);
      if (rest?.size === 0) providers.delete(key);
      if (rest?.size === 1) shared.delete(key);
    }
    for (const key of after.keys()) {
      if (before.has(key)) continue;
      touched.add(key);
      const all = providers.get(key) ?? new Set<string>();
      providers.set(key, all.add(file));
      if (all.size > 1) shared.add(key);
    }
    if (next === undefined || next.problems.length === 0) troubled.delete(file);
    else troubled.add(file);
    if (next === undefined) files.delete(file);
    else files.set(file, next);
  };

  const givers = (key: ResourceKey): string[] => [...(providers.get(key) ?? [])].sort();

  const winner = (key: ResourceKey): AnyResource | undefined => {
    for (const file of givers(key)) {
      const resource = files.get(file)?.provisions.get(key)?.resource;
      if (resource !== undefined) return resource;
    }
    return undefined;
  };

  const wantedProblems = (): Map<string, ResourceProblem> => {
    const wanted = new Map<string, ResourceProblem>();
    for (const file of troubled) {
      for (const { index, problem } of files.get(file)?.problems ?? []) {
        const { key } = problem;
        // Where another document has the same key, this one is named by its place.
        const ambiguous =
          key !== undefined &&
          ((providers.get(key)?.size ?? 0) > 1 || files.get(file)?.provisions.get(key)?.index !== index);
        const id = ambiguous && problem.id === key ? `${file}#${index}` : problem.id;
        wanted.set(id, { ...problem, id });
      }
    }
    for (const key of shared) addDuplicates(key, wanted);
    return wanted;
  };

  const addDuplicates = (key: ResourceKey, wanted: Map<string, ResourceProblem>): void => {
    const inForce = winner(key)?.origin;
    for (const file of givers(key)) {
      const provision = files.get(file)?.provisions.get(key);
      if (provision?.resource === undefined || file === inForce?.file) continue;
      const id = `${file}#${provision.index}`;
      wanted.set(id, duplicate(id, key, provision.origin, inForce));
    }
  };

  return {
    isSuspicious(file, documents) {
      const previous = files.get(file);
      const { next, unsure } = recordOf(file, documents, previous);
      // In the place of a policy that is half written, the strictest would be in force.
      const refused = documents.some((each) => 'problem' in each && each.problem.substitutes !== undefined);
      return refused || unsure || [...(previous?.provisions.keys() ?? [])].some((key) => !next.provisions.has(key));
    },
    isGivenElsewhere(file) {
      const given = [...(files.get(file)?.provisions ?? [])];
      return given.every(([key, { resource }]) =>
        givers(key).some((other) => {
          const same = other === file ? undefined : files.get(other)?.provisions.get(key)?.resource;
          return same !== undefined && same.fingerprint === resource?.fingerprint;
        }),
      );
    },
    put(file, reading) {
      const previous = files.get(file);
      if ('unreadable' in reading) {
        const provisions = previous?.provisions ?? new Map<ResourceKey, Provision>();
        const kept = [...provisions.keys()];
        record(file, { provisions, problems: [{ index: 0, problem: { ...reading.unreadable, kept } }] });
        return;
      }
      const { next, unsure } = recordOf(file, reading.documents, previous);
      const missing = [...(previous?.provisions ?? [])].filter(([key]) => !next.provisions.has(key));
      record(file, unsure ? withMissing(next, missing) : next);
    },
    remove(file) {
      record(file, undefined);
    },
    flush(eventTime) {
      const events: ResourceEvent[] = [];
      for (const key of [...touched].sort()) {
        const resource = winner(key);
        const before = told.get(key);
        if (isSameVersion(resource, before)) continue;
        if (resource === undefined) {
          told.delete(key);
          events.push({ type: 'delete', key, eventTime });
        } else {
          told.set(key, resource);
          events.push({ type: 'set', resource, eventTime });
        }
      }
      touched.clear();
      // Problems come last: a `set` ends its key's problem, and a last good version may be set beside the fault.
      const wanted = wantedProblems();
      for (const id of toldProblems.keys()) if (!wanted.has(id)) events.push({ type: 'resolved', id, eventTime });
      const setKeys = new Set(
        events.map((event) =>
          event.type === 'set' ? keyOf(event.resource) : event.type === 'delete' ? event.key : '',
        ),
      );
      for (const [id, problem] of wanted) {
        if (setKeys.has(id) || !same(toldProblems.get(id), problem))
          events.push({ type: 'invalid', problem, eventTime });
      }
      toldProblems.clear();
      for (const [id, problem] of wanted) toldProblems.set(id, problem);
      return events;
    },
  };
}

/** The same content from the same place: nothing to tell, even if it was read anew. */
function isSameVersion(a: AnyResource | undefined, b: AnyResource | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.fingerprint !== b.fingerprint || a.origin.file !== b.origin.file || a.origin.line !== b.origin.line)
    return false;
  return a.warnings === b.warnings || JSON.stringify(a.warnings) === JSON.stringify(b.warnings);
}

/** What is missing stays in force; the documents whose key cannot be told say so, for each may be one of these. */
function withMissing(next: FileRecord, missing: readonly (readonly [ResourceKey, Provision])[]): FileRecord {
  const kept = missing.map(([key]) => key);
  const problems = next.problems.map(({ index, problem }) => ({
    index,
    problem: problem.key === undefined ? { ...problem, kept } : problem,
  }));
  return { provisions: new Map([...next.provisions, ...missing]), problems };
}

/** `unsure`: some document's key cannot be told, so a key that is missing may be that one. */
function recordOf(
  file: string,
  documents: readonly ParsedResource[],
  previous: FileRecord | undefined,
): { readonly next: FileRecord; readonly unsure: boolean } {
  const provisions = new Map<ResourceKey, Provision>();
  const problems: { index: number; problem: ResourceProblem }[] = [];
  const faulty = new Set<ResourceKey>();
  let unsure = false;
  documents.forEach((document, index) => {
    if ('ignored' in document) return;
    if ('problem' in document) {
      const { problem } = document;
      problems.push({ index, problem });
      if (problem.key === undefined) unsure = true;
      else if (!provisions.has(problem.key)) {
        const resource = previous?.provisions.get(problem.key)?.resource;
        provisions.set(problem.key, { index, origin: problem.origin, resource });
        faulty.add(problem.key);
      }
      return;
    }
    const { resource } = document;
    const key = keyOf(resource);
    const first = provisions.get(key);
    // A good document stands in for a faulty one of the same key before it; otherwise the first wins.
    if (first !== undefined && !faulty.delete(key)) {
      problems.push({ index, problem: duplicate(`${file}#${index}`, key, resource.origin, first.origin) });
    } else provisions.set(key, { index, origin: resource.origin, resource });
  });
  return { next: { provisions, problems }, unsure };
}

function duplicate(
  id: string,
  key: ResourceKey,
  origin: ResourceOrigin,
  inForce: ResourceOrigin | undefined,
): ResourceProblem {
  const place = inForce === undefined ? 'elsewhere' : `in ${inForce.file}:${inForce.line ?? 1}`;
  return {
    id,
    key,
    origin,
    field: 'metadata.name',
    message: `expected one document for ${key}; the one ${place} is in force`,
  };
}

function same(a: ResourceProblem | undefined, b: ResourceProblem): boolean {
  if (a?.message !== b.message || a.field !== b.field || a.origin.line !== b.origin.line || a.key !== b.key)
    return false;
  return JSON.stringify([a.substitutes, a.kept]) === JSON.stringify([b.substitutes, b.kept]);
}
