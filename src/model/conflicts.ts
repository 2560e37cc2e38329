/** Claims of names that belong to somebody else, as they come and go. */
import type { PMap } from '../core/pmap.ts';
import type { ChangeSet, NameConflict } from './types.ts';

interface Claims {
  /** Conflicts by what claims the name. */
  readonly nameConflicts: PMap<readonly NameConflict[]>;
}

/** Those that were not there before. */
export function newConflicts(before: Claims, after: Claims): ChangeSet['nameConflicts'] {
  return after.nameConflicts.changedKeys(before.nameConflicts).flatMap((name) => {
    const known = new Set(before.nameConflicts.get(name)?.map(({ message }) => message));
    return (after.nameConflicts.get(name) ?? []).filter(({ message }) => !known.has(message));
  });
}
