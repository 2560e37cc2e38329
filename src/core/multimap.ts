/**
 * Values by key, several for a key. Most keys have few, which take no set: thousands of proxies would have a hundred
 * sets each.
 */
export class Multimap<K, V extends object> {
  /** A value, a list of few, or a set. */
  readonly #entries = new Map<K, V | Few<V> | Set<V>>();

  /** @returns whether it is the first value of the key */
  add(key: K, value: V): boolean {
    const known = this.#entries.get(key);
    if (known instanceof Set) known.add(value);
    else if (known instanceof Few) {
      if (known.add(value)) return false;
      this.#entries.set(key, new Set([...known.values, value]));
    } else if (known === undefined) this.#entries.set(key, value);
    else if (known !== value) this.#entries.set(key, new Few(known, value));
    return known === undefined;
  }

  /** @returns whether the key had the value, and has no other now */
  delete(key: K, value: V): boolean {
    const known = this.#entries.get(key);
    if (known === value) return this.#entries.delete(key);
    if (!(known instanceof Few || known instanceof Set)) return false;
    const isLast = known.delete(value) && known.size === 0;
    return isLast && this.#entries.delete(key);
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  get(key: K): Iterable<V> {
    const known = this.#entries.get(key);
    if (known instanceof Few) return known.values;
    if (known instanceof Set) return known;
    return known === undefined ? [] : [known];
  }
}

/** Most values of a list. */
const MAX_LISTED = 8;

/** Few values, in a list: a set of them takes five times the memory. */
class Few<V> {
  readonly values: V[];

  constructor(...values: V[]) {
    this.values = values;
  }

  get size(): number {
    return this.values.length;
  }

  /** False if there are too many. */
  add(value: V): boolean {
    if (this.values.includes(value)) return true;
    if (this.size === MAX_LISTED) return false;
    this.values.push(value);
    return true;
  }

  delete(value: V): boolean {
    const at = this.values.indexOf(value);
    if (at < 0) return false;
    this.values.splice(at, 1);
    return true;
  }
}
