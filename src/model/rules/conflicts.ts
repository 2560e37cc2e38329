/** Conflicts about names: which ones are new. */
import type { PMap } from '../../core/pmap.ts';
import type { ChangeSet, NameConflict } from '../types/types.ts';

interface Claims {
  /** Conflicts by the document that uses the name. */
  readonly nameConflicts: PMap<readonly NameConflict[]>;
}

/** The conflicts that did not exist before. */
export function newConflicts(before: Claims, after: Claims): ChangeSet['nameConflicts'] {
  return after.nameConflicts.changedKeys(before.nameConflicts).flatMap((name) => {
    const known = new Set(before.nameConflicts.get(name)?.map(({ message }) => message));
    return (after.nameConflicts.get(name) ?? []).filter(({ message }) => !known.has(message));
  });
}
