/**
 * Interned, immutable sets of resource names. Proxies of one view subscribe to the same thousands of names; each stream holds
 * a reference to the one set, and what is computed for (bundle, set), or of two sets, is computed once for all of them.
 */
import { EMPTY_HASH, hashText, hashToText, minus, plus, type SetHash } from './set-hash.ts';
import { cached, type WeakCache } from './weak-cache.ts';

export class NameSet {
  readonly names: ReadonlySet<string>;
  readonly hash: SetHash;

  constructor(names: ReadonlySet<string>, hash: SetHash) {
    this.names = names;
    this.hash = hash;
  }

  get size(): number {
    return this.names.size;
  }

  has(name: string): boolean {
    return this.names.has(name);
  }
}

const pool = new Map<string, WeakRef<NameSet>>();
const swept = new FinalizationRegistry<string>((key) => {
  if (pool.get(key)?.deref() === undefined) pool.delete(key);
});

function sameNames(known: NameSet, names: ReadonlySet<string>): boolean {
  if (known.size !== names.size) return false;
  for (const name of names) if (!known.has(name)) return false;
  return true;
}

/** The one set with these names. A hash that two sets share is found out; the second is then simply not shared. */
function interned(names: ReadonlySet<string>, hash: SetHash): NameSet {
  const key = `${hashToText(hash)}/${names.size}`;
  const known = pool.get(key)?.deref();
  if (known !== undefined && sameNames(known, names)) return known;
  const made = new NameSet(names, hash);
  if (known === undefined) {
    pool.set(key, new WeakRef(made));
    swept.register(made, key);
  }
  return made;
}

export const NO_NAMES: NameSet = new NameSet(new Set(), EMPTY_HASH);

/** The set of `names`; repetitions count once. */
export function nameSetOf(names: Iterable<string>): NameSet {
  const distinct = new Set(names);
  if (distinct.size === 0) return NO_NAMES;
  let hash = EMPTY_HASH;
  for (const name of distinct) hash = plus(hash, hashText(name));
  return interned(distinct, hash);
}

const changes: WeakCache<WeakMap<NameSet, NameSet>> = new WeakMap();

/** The set with names added and others removed (what is both is in it); the same object when that changes nothing. */
export function changeNames(set: NameSet, added: NameSet, removed: NameSet): NameSet {
  if (set.size === 0) return added;
  const byRemoved = cached(changes, set, added, () => new WeakMap());
  let changed = byRemoved.get(removed);
  if (changed === undefined) {
    changed = makeChanged(set, added, removed);
    byRemoved.set(removed, changed);
  }
  return changed;
}

function makeChanged(set: NameSet, added: NameSet, removed: NameSet): NameSet {
  let hash = set.hash;
  let next: Set<string> | undefined;
  for (const name of removed.names)
    if ((next ?? set.names).has(name)) {
      next ??= new Set(set.names);
      next.delete(name);
      hash = minus(hash, hashText(name));
    }
  for (const name of added.names)
    if (!(next ?? set.names).has(name)) {
      next ??= new Set(set.names);
      next.add(name);
      hash = plus(hash, hashText(name));
    }
  if (next === undefined) return set;
  return next.size === 0 ? NO_NAMES : interned(next, hash);
}

const differences: WeakCache<NameSet> = new WeakMap();

/** The names of `set` that are not in `other`. */
export function namesOutside(set: NameSet, other: NameSet): NameSet {
  if (set === other) return NO_NAMES;
  if (set.size === 0 || other.size === 0) return set;
  return cached(differences, set, other, () => {
    const outside = [...set.names].filter((name) => !other.has(name));
    return outside.length === set.size ? set : nameSetOf(outside);
  });
}
