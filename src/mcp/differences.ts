/** What a peer must be sent, given the versions that it has. */
import type { ServedDocument, ServedKind } from './served-documents.ts';

export interface Differences {
  readonly changed: readonly ServedDocument[];
  /** Names. */
  readonly removed: readonly string[];
}

/** @param has versions by name */
export function differences({ documents }: ServedKind, has: ReadonlyMap<string, string>): Differences {
  return {
    changed: [...documents.values()].filter(({ name, version }) => has.get(name) !== version),
    removed: [...has.keys()].filter((name) => !documents.has(name)),
  };
}

/** The versions that a peer has after it has accepted these differences. */
export function applied(has: ReadonlyMap<string, string>, { changed, removed }: Differences): Map<string, string> {
  const after = new Map(has);
  for (const { name, version } of changed) after.set(name, version);
  for (const name of removed) after.delete(name);
  return after;
}

/**
 * The versions that a peer may have after it has refused these differences. Readers put the documents without mistakes
 * in force, so that each name may be there or not: with an empty version it is sent again, or removed if it is gone.
 */
export function refused(has: ReadonlyMap<string, string>, { changed, removed }: Differences): Map<string, string> {
  const after = new Map(has);
  for (const name of [...changed.map((document) => document.name), ...removed]) after.set(name, '');
  return after;
}
