/** The documents of one file by key, and the documents that stay in force when the file becomes incomplete. */
import {
  type AnyResource,
  keyOf,
  type ParsedResource,
  type ResourceKey,
  type ResourceOrigin,
  type ResourceProblem,
} from '../../resources/index.ts';

/** The document of a file for a key. */
export interface Provision {
  readonly index: number;
  readonly origin: ResourceOrigin;
  /** The valid version, or the last good one of a document that is invalid now. */
  readonly resource: AnyResource | undefined;
}

/** The documents of a file and their problems. */
export interface FileRecord {
  readonly provisions: ReadonlyMap<ResourceKey, Provision>;
  readonly problems: readonly { readonly index: number; readonly problem: ResourceProblem }[];
}

/**
 * Missing resources stay in force; problems of documents without a known key list them, because each problem may be
 * that of a missing resource.
 */
export function withMissing(next: FileRecord, missing: readonly (readonly [ResourceKey, Provision])[]): FileRecord {
  const kept = missing.map(([key]) => key);
  const problems = next.problems.map(({ index, problem }) => ({
    index,
    problem: problem.key === undefined ? { ...problem, kept } : problem,
  }));
  return { provisions: new Map([...next.provisions, ...missing]), problems };
}

/**
 * The record of a file after reading `documents`; invalid ones keep their version in `previous`. `incomplete`: the key
 * of some document cannot be determined, so this may be the document of a missing key.
 */
export function recordOf(
  file: string,
  documents: readonly ParsedResource[],
  previous: FileRecord | undefined,
): { readonly next: FileRecord; readonly incomplete: boolean } {
  const provisions = new Map<ResourceKey, Provision>();
  const problems: { index: number; problem: ResourceProblem }[] = [];
  /** Keys whose only documents so far are invalid. */
  const invalid = new Set<ResourceKey>();
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
        invalid.add(problem.key);
      }
      return;
    }
    const { resource } = document;
    const key = keyOf(resource);
    const first = provisions.get(key);
    // A valid document replaces an invalid one of the same key before it; otherwise the first takes precedence.
    if (first !== undefined && !invalid.delete(key)) {
      problems.push({ index, problem: duplicate(`${file}#${index}`, key, resource.origin, first.origin) });
    } else provisions.set(key, { index, origin: resource.origin, resource });
  });
  return { next: { provisions, problems }, incomplete };
}

/** The problem of a document with the same key as another document. @param inForce origin of the latter, if known */
export function duplicate(
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
    message: `expected one document for ${key}; the document ${location} is in force`,
  };
}
