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
