/**
 * Interned, immutable sets of resource names. Proxies of one view subscribe to the same thousands of names: all streams
 * share one set, and results for (bundle, set) or for two sets are computed once for all of them.
 */
import { type Memos, WeakMemo, type WeakPairMemo } from '../../core/memo.ts';
import { EMPTY_HASH, hashText, hashToText, minus, plus, type SetHash } from './set-hash.ts';

export class NameSet {
  /** In any order. */
  readonly names: ReadonlySet<string>;
  readonly hash: SetHash;
  #sorted: readonly string[] | undefined;

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

  /** The names in code-unit order, which does not depend on which proxy subscribed to them first. */
  sorted(): readonly string[] {
    this.#sorted ??= [...this.names].sort();
    return this.#sorted;
  }
}

export const NO_NAMES: NameSet = new NameSet(new Set(), EMPTY_HASH);

/** A set of one name, for use as a constant: it is not interned. */
export function onlyName(name: string): NameSet {
  return new NameSet(new Set([name]), hashText(name));
}

/** The names that a set has more than another one; undefined if it lacks a name of that. */
export function addedNames(set: NameSet, before: NameSet): readonly string[] | undefined {
  if (set === before) return [];
  const added: string[] = [];
  for (const name of set.names) if (!before.has(name)) added.push(name);
  return added.length === set.size - before.size ? added : undefined;
}

function sameNames(known: NameSet, names: ReadonlySet<string>): boolean {
  if (known.size !== names.size) return false;
  for (const name of names) if (!known.has(name)) return false;
  return true;
}

/**
 * The name sets of one server: equal sets are one object as long as it is in use, unless memos are switched off. The
 * empty set is always {@link NO_NAMES}.
 */
export class NameSets {
  readonly #interning: boolean;
  readonly #pool = new Map<string, WeakRef<NameSet>>();
  readonly #collected = new FinalizationRegistry<string>((key) => {
    if (this.#pool.get(key)?.deref() === undefined) this.#pool.delete(key);
  });
  /** By the set and the names added to it; then by the names removed. */
  readonly #changes: WeakPairMemo<NameSet, NameSet, WeakMemo<NameSet, NameSet>>;
  readonly #differences: WeakPairMemo<NameSet, NameSet, NameSet>;

  constructor(memos: Memos) {
    this.#interning = memos.enabled;
    this.#changes = memos.pairs('changed name sets');
    this.#differences = memos.pairs('differences of name sets');
  }

  /** The shared set with these names. If two sets have the same hash, the second is not shared. */
  #interned(names: ReadonlySet<string>, hash: SetHash): NameSet {
    if (!this.#interning) return new NameSet(names, hash);
    const key = `${hashToText(hash)}/${names.size}`;
    const known = this.#pool.get(key)?.deref();
    if (known !== undefined && sameNames(known, names)) return known;
    const made = new NameSet(names, hash);
    if (known === undefined) {
      this.#pool.set(key, new WeakRef(made));
      this.#collected.register(made, key);
    }
    return made;
  }

  /** The set of `names`; repetitions count once. */
  of(names: Iterable<string>): NameSet {
    const distinct = new Set(names);
    if (distinct.size === 0) return NO_NAMES;
    let hash = EMPTY_HASH;
    for (const name of distinct) hash = plus(hash, hashText(name));
    return this.#interned(distinct, hash);
  }

  /** The set with some names removed and then others added; the same object if it is unchanged. */
  change(set: NameSet, added: NameSet, removed: NameSet): NameSet {
    if (set.size === 0) return added;
    return this.#changes
      .get(set, added, () => new WeakMemo(this.#interning))
      .get(removed, () => this.#changed(set, added, removed));
  }

  #changed(set: NameSet, added: NameSet, removed: NameSet): NameSet {
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
    return next.size === 0 ? NO_NAMES : this.#interned(next, hash);
  }

  /** The names of `set` that are not in `other`. */
  outside(set: NameSet, other: NameSet): NameSet {
    if (set === other) return NO_NAMES;
    if (set.size === 0 || other.size === 0) return set;
    return this.#differences.get(set, other, () => {
      const outside = [...set.names].filter((name) => !other.has(name));
      return outside.length === set.size ? set : this.of(outside);
    });
  }
}
