/**
 * A persistent (immutable, structure-sharing) string map: an update copies one bucket and the table of buckets, so that
 * a snapshot of 10,000 services changes in microseconds and the previous snapshot is not affected. A small map has one
 * bucket: there are tens of thousands of those, and a table takes 2 kB.
 */

/** Few enough to copy the table cheaply, enough that a bucket of a 10,000-entry map holds about 40. */
const BUCKETS = 256;

/** Maximum number of entries of a map with one bucket, unless it has had more. */
const SMALL = 128;

/** FNV-1a, 32 bits: it only has to distribute keys over buckets. */
function bucketOf(key: string, buckets: number): number {
  if (buckets === 1) return 0;
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % buckets;
}

type Table<V> = (ReadonlyMap<string, V> | undefined)[];

/** The entries of a small map that has grown. */
function spread<V>(entries: Iterable<readonly [string, V]>): Table<V> {
  const table: (Map<string, V> | undefined)[] = new Array(BUCKETS).fill(undefined);
  for (const [key, value] of entries) {
    const index = bucketOf(key, BUCKETS);
    const bucket = table[index] ?? new Map<string, V>();
    table[index] = bucket.set(key, value);
  }
  return table;
}

/** A set of changes for {@link PMap.with}: a value sets the key, `undefined` removes it. */
export type PMapChanges<V> = Iterable<readonly [key: string, value: V | undefined]>;

/**
 * The sorted entries of an earlier map, and the keys that may have changed since: updating them is cheaper than sorting
 * again.
 */
interface EarlierOrder<V> {
  readonly sorted: readonly (readonly [string, V])[];
  readonly changed: readonly string[];
}

/**
 * With more than one changed key per this many entries, all entries are sorted again. That also bounds how long an
 * earlier map's entries stay in memory.
 */
const ENTRIES_PER_CHANGE = 32;

/**
 * Immutable map from string to `V`. Iteration order is not insertion order; use {@link PMap.sorted} where order
 * matters.
 */
export class PMap<V> {
  static #empty: PMap<never> | undefined;
  readonly size: number;
  readonly #buckets: readonly (ReadonlyMap<string, V> | undefined)[];
  #sorted: readonly (readonly [string, V])[] | undefined;
  #earlier: EarlierOrder<V> | undefined;
  /** A map with the same keys and maybe others, until this one is sorted. */
  #mappedFrom: PMap<V> | undefined;

  private constructor(buckets: readonly (ReadonlyMap<string, V> | undefined)[], size: number) {
    this.#buckets = buckets;
    this.size = size;
  }

  static empty<V>(): PMap<V> {
    PMap.#empty ??= new PMap<never>([undefined], 0);
    return PMap.#empty;
  }

  /** Of entries with the same key, the last one counts. Many entries in the order of their keys are not sorted again. */
  static from<V>(entries: Iterable<readonly [string, V]>): PMap<V> {
    const listed = Array.from(entries);
    const table = listed.length > SMALL ? spread(listed) : [];
    const size = table.reduce((sum, bucket) => sum + (bucket?.size ?? 0), 0);
    if (size <= SMALL) return PMap.empty<V>().with(listed);
    const map = new PMap(table, size);
    if (areInOrder(listed)) map.#sorted = listed;
    return map;
  }

  get(key: string): V | undefined {
    return this.size === 0 ? undefined : this.#buckets[bucketOf(key, this.#buckets.length)]?.get(key);
  }

  has(key: string): boolean {
    return this.size > 0 && (this.#buckets[bucketOf(key, this.#buckets.length)]?.has(key) ?? false);
  }

  /** A map with `changes` applied in order; `this` when nothing changes (values compared by identity). */
  with(changes: PMapChanges<V>): PMap<V> {
    let buckets: Table<V> | undefined;
    const copied = new Map<number, Map<string, V>>();
    const changed = this.#sorted === undefined && this.#earlier === undefined ? undefined : ([] as string[]);
    let size = this.size;
    for (const [key, value] of changes) {
      const index = bucketOf(key, this.#buckets.length);
      const current = copied.get(index) ?? this.#buckets[index];
      const had = current?.has(key) ?? false;
      if (value === undefined ? !had : had && current?.get(key) === value) continue;
      changed?.push(key);
      buckets ??= this.#buckets.slice();
      let bucket = copied.get(index);
      if (bucket === undefined) {
        bucket = new Map(current);
        copied.set(index, bucket);
        buckets[index] = bucket;
      }
      if (value === undefined) {
        bucket.delete(key);
        size--;
      } else {
        bucket.set(key, value);
        if (!had) size++;
      }
    }
    if (buckets === undefined) return this;
    const isLarge = buckets.length === 1 && size > SMALL;
    const next = new PMap(isLarge ? spread(buckets[0] ?? []) : buckets, size);
    if (changed !== undefined) next.#earlier = this.#orderBefore(changed);
    return next;
  }

  /** The sorted entries that the map after these changes can update. */
  #orderBefore(changes: readonly string[]): EarlierOrder<V> | undefined {
    const sorted = this.#sorted ?? this.#earlier?.sorted;
    if (sorted === undefined) return undefined;
    const changed = this.#sorted === undefined ? [...(this.#earlier?.changed ?? []), ...changes] : changes;
    return changed.length * ENTRIES_PER_CHANGE > sorted.length ? undefined : { sorted, changed };
  }

  *entries(): Generator<readonly [string, V]> {
    for (const bucket of this.#buckets) if (bucket !== undefined) yield* bucket.entries();
  }

  *keys(): Generator<string> {
    for (const bucket of this.#buckets) if (bucket !== undefined) yield* bucket.keys();
  }

  *values(): Generator<V> {
    for (const bucket of this.#buckets) if (bucket !== undefined) yield* bucket.values();
  }

  /**
   * The map with other values for the same keys; `this` where no value differs. Cheaper than {@link PMap.with} for many
   * values, because the order of the keys is that of this map.
   * @param remember may return the result for an earlier map that had the same bucket
   */
  mapped(make: (value: V) => V, remember: RememberBucket<V> = (_, map) => map()): PMap<V> {
    const buckets = this.#buckets.map((bucket) => bucket && remember(bucket, () => mappedBucket(bucket, make)));
    if (buckets.every((bucket, index) => bucket === this.#buckets[index])) return this;
    const next = new PMap(buckets, this.size);
    next.#mappedFrom = this;
    return next;
  }

  /** The map of the entries whose values fit; `this` where all do. Shares the buckets of which all values fit. */
  filtered(fits: (value: V) => boolean): PMap<V> {
    const buckets = this.#buckets.map((bucket) => bucket && filteredBucket(bucket, fits));
    if (buckets.every((bucket, index) => bucket === this.#buckets[index])) return this;
    const next = new PMap(
      buckets,
      buckets.reduce((sum, bucket) => sum + (bucket?.size ?? 0), 0),
    );
    next.#mappedFrom = this;
    return next;
  }

  /** Entries in code-unit order of their keys; sorted once per map. */
  sorted(): readonly (readonly [string, V])[] {
    this.#sorted ??= this.#inOrder();
    this.#earlier = undefined;
    this.#mappedFrom = undefined;
    return this.#sorted;
  }

  #inOrder(): readonly (readonly [string, V])[] {
    if (this.#earlier !== undefined) return this.#reordered(this.#earlier);
    const from = this.#mappedFrom?.sorted();
    if (from === undefined) return [...this.entries()].sort(byKey);
    return from.flatMap(([key]) => {
      const value = this.get(key);
      return value === undefined ? [] : [[key, value] as const];
    });
  }

  #reordered({ sorted, changed }: EarlierOrder<V>): readonly (readonly [string, V])[] {
    const entries: (readonly [string, V])[] = [];
    let from = 0;
    for (const key of [...new Set(changed)].sort()) {
      const at = indexOfKey(sorted, key, from);
      for (let i = from; i < at; i++) push(entries, sorted[i]);
      from = sorted[at]?.[0] === key ? at + 1 : at;
      const value = this.get(key);
      if (value !== undefined) entries.push([key, value]);
    }
    for (let i = from; i < sorted.length; i++) push(entries, sorted[i]);
    return entries;
  }

  /**
   * Keys whose value differs from `other`'s (by identity), or which only one map has; buckets that both share are
   * skipped.
   */
  changedKeys(other: PMap<V>): string[] {
    const changed: string[] = [];
    if (this.#buckets.length !== other.#buckets.length) {
      for (const [key, value] of this.entries()) if (other.get(key) !== value) changed.push(key);
      for (const key of other.keys()) if (!this.has(key)) changed.push(key);
      return changed;
    }
    for (let i = 0; i < this.#buckets.length; i++) {
      const mine = this.#buckets[i];
      const theirs = other.#buckets[i];
      if (mine === theirs) continue;
      for (const [key, value] of mine ?? []) if (theirs?.get(key) !== value) changed.push(key);
      for (const key of theirs?.keys() ?? []) if (!mine?.has(key)) changed.push(key);
    }
    return changed;
  }
}

/** The result for an immutable part of a map, computed now or before. */
export type RememberBucket<V> = (bucket: Bucket<V>, map: () => Bucket<V>) => Bucket<V>;
type Bucket<V> = ReadonlyMap<string, V>;

function mappedBucket<V>(bucket: Bucket<V>, make: (value: V) => V): Bucket<V> {
  let copy: Map<string, V> | undefined;
  for (const [key, value] of bucket) {
    const made = make(value);
    if (made === value) continue;
    copy ??= new Map(bucket);
    copy.set(key, made);
  }
  return copy ?? bucket;
}

function filteredBucket<V>(bucket: Bucket<V>, fits: (value: V) => boolean): Bucket<V> {
  let copy: Map<string, V> | undefined;
  for (const [key, value] of bucket) {
    if (fits(value)) continue;
    copy ??= new Map(bucket);
    copy.delete(key);
  }
  return copy ?? bucket;
}

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Whether the keys ascend, each of them once. */
function areInOrder(entries: readonly (readonly [string, unknown])[]): boolean {
  for (let at = 1; at < entries.length; at++)
    if (byKey(entries[at - 1] ?? ['', 0], entries[at] ?? ['', 0]) >= 0) return false;
  return true;
}

function push<T>(list: T[], item: T | undefined): void {
  if (item !== undefined) list.push(item);
}

/** The first index, not before `from`, where `key` is or would be inserted. */
function indexOfKey(sorted: readonly (readonly [string, unknown])[], key: string, from: number): number {
  let [low, high] = [from, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle]?.[0] ?? '') < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
