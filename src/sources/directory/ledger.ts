/**
 * Which file gives which resource, and what the store was sent. Without I/O: files come and go in any order, and the
 * resulting events describe how the directory's state as a whole has changed.
 *
 * - A key in several files is given by the first of them in path order; the others are problems until that one is
 *   deleted.
 * - A document that becomes invalid keeps its last good version; so does everything missing from a file in which some
 *   document cannot be identified (it may be that one).
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

/** The result of reading a file. `unreadable` keeps everything that it gave before. */
export type FileReading = { readonly documents: readonly ParsedResource[] } | { readonly unreadable: ResourceProblem };

export interface Ledger {
  /**
   * Whether a reading looks like a file that is still being written: resources are missing, or a document cannot be
   * identified.
   */
  isSuspicious(file: string, documents: readonly ParsedResource[]): boolean;
  /** Whether other files give everything that this one gives, unchanged, as after a rename. */
  isGivenElsewhere(file: string): boolean;
  put(file: string, reading: FileReading): void;
  remove(file: string): void;
  /** Events for everything that has changed since the last call, in key order. */
  flush(eventTime: number): ResourceEvent[];
}

/** What one file has for one key. */
interface Provision {
  readonly index: number;
  readonly origin: ResourceOrigin;
  /** The valid version, or the last good one of a document that is invalid now. */
  readonly resource: AnyResource | undefined;
}

interface FileRecord {
  readonly provisions: ReadonlyMap<ResourceKey, Provision>;
  readonly problems: readonly { readonly index: number; readonly problem: ResourceProblem }[];
}

export function createLedger(): Ledger {
  const files = new Map<string, FileRecord>();
  /** Files that have a document for a key. */
  const providers = new Map<ResourceKey, Set<string>>();
  const sent = new Map<ResourceKey, AnyResource>();
  const sentProblems = new Map<string, ResourceProblem>();
  /** Files with problems, and keys in several files: the few that every flush has to examine. */
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
        // Where another document has the same key, this one is named by its position.
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
      const { next, incomplete } = recordOf(file, documents, previous);
      // In place of a half-written policy, the strictest would be in force.
      const refused = documents.some((each) => 'problem' in each && each.problem.substitutes !== undefined);
      return refused || incomplete || [...(previous?.provisions.keys() ?? [])].some((key) => !next.provisions.has(key));
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
      const { next, incomplete } = recordOf(file, reading.documents, previous);
      const missing = [...(previous?.provisions ?? [])].filter(([key]) => !next.provisions.has(key));
      record(file, incomplete ? withMissing(next, missing) : next);
    },
    remove(file) {
      record(file, undefined);
    },
    flush(eventTime) {
      const events: ResourceEvent[] = [];
      for (const key of [...touched].sort()) {
        const resource = winner(key);
        const before = sent.get(key);
        if (isSameVersion(resource, before)) continue;
        if (resource === undefined) {
          sent.delete(key);
          events.push({ type: 'delete', key, eventTime });
        } else {
          sent.set(key, resource);
          events.push({ type: 'set', resource, eventTime });
        }
      }
      touched.clear();
      // Problems come last: a `set` ends its key's problem, and a last good version may be set along with the problem.
      const wanted = wantedProblems();
      for (const id of sentProblems.keys()) if (!wanted.has(id)) events.push({ type: 'resolved', id, eventTime });
      const setKeys = new Set(
        events.map((event) =>
          event.type === 'set' ? keyOf(event.resource) : event.type === 'delete' ? event.key : '',
        ),
      );
      for (const [id, problem] of wanted) {
        if (setKeys.has(id) || !same(sentProblems.get(id), problem))
          events.push({ type: 'invalid', problem, eventTime });
      }
      sentProblems.clear();
      for (const [id, problem] of wanted) sentProblems.set(id, problem);
      return events;
    },
  };
}

/** The same content from the same location: no event, even if it was parsed again. */
function isSameVersion(a: AnyResource | undefined, b: AnyResource | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.fingerprint !== b.fingerprint || a.origin.file !== b.origin.file || a.origin.line !== b.origin.line)
    return false;
  return a.warnings === b.warnings || JSON.stringify(a.warnings) === JSON.stringify(b.warnings);
}

/**
 * Missing resources stay in force; problems of documents without a known key list them, because each may be one of
 * them.
 */
function withMissing(next: FileRecord, missing: readonly (readonly [ResourceKey, Provision])[]): FileRecord {
  const kept = missing.map(([key]) => key);
  const problems = next.problems.map(({ index, problem }) => ({
    index,
    problem: problem.key === undefined ? { ...problem, kept } : problem,
  }));
  return { provisions: new Map([...next.provisions, ...missing]), problems };
}

/** `incomplete`: some document's key cannot be determined, so a key that is missing may be that one. */
function recordOf(
  file: string,
  documents: readonly ParsedResource[],
  previous: FileRecord | undefined,
): { readonly next: FileRecord; readonly incomplete: boolean } {
  const provisions = new Map<ResourceKey, Provision>();
  const problems: { index: number; problem: ResourceProblem }[] = [];
  const faulty = new Set<ResourceKey>();
  let incomplete = false;
  documents.forEach((document, index) => {
    if ('ignored' in document) return;
    if ('problem' in document) {
      const { problem } = document;
      problems.push({ index, problem });
      if (problem.key === undefined) incomplete = true;
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
    // A valid document replaces an invalid one of the same key before it; otherwise the first takes precedence.
    if (first !== undefined && !faulty.delete(key)) {
      problems.push({ index, problem: duplicate(`${file}#${index}`, key, resource.origin, first.origin) });
    } else provisions.set(key, { index, origin: resource.origin, resource });
  });
  return { next: { provisions, problems }, incomplete };
}

function duplicate(
  id: string,
  key: ResourceKey,
  origin: ResourceOrigin,
  inForce: ResourceOrigin | undefined,
): ResourceProblem {
  const location = inForce === undefined ? 'elsewhere' : `in ${inForce.file}:${inForce.line ?? 1}`;
  return {
    id,
    key,
    origin,
    field: 'metadata.name',
    message: `expected one document for ${key}; the one ${location} is in force`,
  };
}

function same(a: ResourceProblem | undefined, b: ResourceProblem): boolean {
  if (a?.message !== b.message || a.field !== b.field || a.origin.line !== b.origin.line || a.key !== b.key)
    return false;
  return JSON.stringify([a.substitutes, a.kept]) === JSON.stringify([b.substitutes, b.kept]);
}
