/**
 * Values by key, several for a key. Most keys have few, which take no set: thousands of proxies would have a hundred
 * sets each.
 */
export class Multimap<K, V extends object> {
  /** A value, a short list, or a set. */
  readonly #entries = new Map<K, V | ShortList<V> | Set<V>>();

  /** @returns whether it is the first value of the key */
  add(key: K, value: V): boolean {
    const known = this.#entries.get(key);
    if (known instanceof Set) known.add(value);
    else if (known instanceof ShortList) this.#entries.set(key, known.with(value));
    else if (known === undefined) this.#entries.set(key, value);
    else if (known !== value) this.#entries.set(key, new ShortList([known, value]));
    return known === undefined;
  }

  /** @returns whether the key had the value, and has no other now */
  delete(key: K, value: V): boolean {
    const known = this.#entries.get(key);
    if (known === value) return this.#entries.delete(key);
    if (known instanceof ShortList) this.#entries.set(key, known.without(value));
    return known instanceof Set && known.delete(value) && known.size === 0 && this.#entries.delete(key);
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  keys(): Iterable<K> {
    return this.#entries.keys();
  }

  get(key: K): Iterable<V> {
    const known = this.#entries.get(key);
    if (known instanceof ShortList) return known.values;
    if (known instanceof Set) return known;
    return known === undefined ? [] : [known];
  }
}

/** Most values of a list. */
const MAX_LISTED = 8;

/** From two to {@link MAX_LISTED} values, in an array without spare capacity: a set takes five times the memory. */
class ShortList<V> {
  readonly values: readonly V[];

  constructor(values: readonly V[]) {
    this.values = values;
  }

  with(value: V): ShortList<V> | Set<V> {
    if (this.values.includes(value)) return this;
    // Spread syntax would keep and increase spare capacity.
    return this.values.length < MAX_LISTED
      ? new ShortList(this.values.concat([value]))
      : new Set([...this.values, value]);
  }

  without(value: V): V | ShortList<V> {
    const at = this.values.indexOf(value);
    if (at < 0) return this;
    const [first, second] = this.values;
    const other = at === 0 ? second : first;
    return this.values.length === 2 && other !== undefined ? other : new ShortList(this.values.toSpliced(at, 1));
  }
}
