/**
 * Interned, immutable sets of resource names. Proxies of one view subscribe to the same thousands of names: all streams
 * share one set, and results for (bundle, set) or for two sets are computed once for all of them. Proxies on demand
 * have sets of a few names each that no other has: these are lists, and their results are not kept.
 */
import { type Memos, WeakMemo, type WeakPairMemo } from '../../core/memo.ts';
import { EMPTY_HASH, hashText, minus, numberOf, plus, type SetHash } from './set-hash.ts';

/** Sets of more names are hash tables, and what is computed from them is kept. */
export const FEW_NAMES = 128;

export class NameSet {
  /** In any order. A list is sorted when a name is looked for. */
  #names: ReadonlySet<string> | readonly string[];
  readonly hash: SetHash;
  #sorted: readonly string[] | undefined;

  /** @param few see {@link FEW_NAMES} */
  constructor(names: ReadonlySet<string>, hash: SetHash, few = FEW_NAMES) {
    this.#names = names.size > few ? names : [...names];
    this.hash = hash;
  }

  /** In any order. */
  get names(): ReadonlySet<string> | readonly string[] {
    return this.#names;
  }

  get size(): number {
    return 'size' in this.#names ? this.#names.size : this.#names.length;
  }

  has(name: string): boolean {
    return 'size' in this.#names ? this.#names.has(name) : contains(this.sorted(), name);
  }

  /** The names in code-unit order, which does not depend on which proxy subscribed to them first. */
  sorted(): readonly string[] {
    if (this.#sorted === undefined) {
      this.#sorted = [...this.#names].sort();
      // Not in place: somebody may be reading the list.
      if (!('size' in this.#names)) this.#names = this.#sorted;
    }
    return this.#sorted;
  }
}

function contains(sorted: readonly string[], name: string): boolean {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const found = sorted[middle] ?? '';
    if (found === name) return true;
    if (found < name) low = middle + 1;
    else high = middle;
  }
  return false;
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
  readonly #few: number;
  /** By the number of the hash. */
  readonly #pool = new Map<number, WeakRef<NameSet>>();
  readonly #collected = new FinalizationRegistry<number>((key) => {
    if (this.#pool.get(key)?.deref() === undefined) this.#pool.delete(key);
  });
  /** By the set and the names added to it; then by the names removed. */
  readonly #changes: WeakPairMemo<NameSet, NameSet, WeakMemo<NameSet, NameSet>>;
  readonly #differences: WeakPairMemo<NameSet, NameSet, NameSet>;

  /** @param few for tests; see {@link FEW_NAMES} */
  constructor(memos: Memos, few = FEW_NAMES) {
    this.#interning = memos.enabled;
    this.#few = few;
    this.#changes = memos.pairs('changed name sets');
    this.#differences = memos.pairs('differences of name sets');
  }

  /** The shared set with these names. If two sets have the same key, the second is not shared. */
  #interned(names: ReadonlySet<string>, hash: SetHash): NameSet {
    if (!this.#interning) return new NameSet(names, hash, this.#few);
    const key = numberOf(hash);
    const known = this.#pool.get(key)?.deref();
    if (known !== undefined && sameNames(known, names)) return known;
    const made = new NameSet(names, hash, this.#few);
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
    if (set === added || (added.size === 0 && removed.size === 0)) return set;
    if (set.size + added.size + removed.size <= this.#few) return this.#changed(set, added, removed);
    return this.#changes
      .get(set, added, () => new WeakMemo(this.#interning))
      .get(removed, () => this.#changed(set, added, removed));
  }

  #changed(set: NameSet, added: NameSet, removed: NameSet): NameSet {
    let hash = set.hash;
    let next: Set<string> | undefined;
    for (const name of removed.names)
      if ((next ?? set).has(name)) {
        next ??= new Set(set.names);
        next.delete(name);
        hash = minus(hash, hashText(name));
      }
    for (const name of added.names)
      if (!(next ?? set).has(name)) {
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
    if (set.size + other.size <= this.#few) return this.#outside(set, other);
    return this.#differences.get(set, other, () => this.#outside(set, other));
  }

  #outside(set: NameSet, other: NameSet): NameSet {
    const outside = [...set.names].filter((name) => !other.has(name));
    return outside.length === set.size ? set : this.of(outside);
  }
}
