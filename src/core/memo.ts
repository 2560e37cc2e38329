/**
 * Caches of results that are computed from immutable objects. An entry lives as long as its object. The owner of a
 * `Memos` can switch its caches off: that must not change any result, only the speed.
 */

/** How often a result was requested, and how often it had to be computed. */
export interface MemoCounts {
  readonly asked: number;
  readonly made: number;
}

/** In place of an undefined result, so that a result needs no object around it. */
const NOTHING = Symbol('undefined');
type Cached<V> = V | typeof NOTHING;

function cached<V>(value: V): Cached<V> {
  return value === undefined ? NOTHING : value;
}

function resultOf<V>(known: Cached<V>): V {
  return known === NOTHING ? (undefined as V) : known;
}

/** Cached results of one computation. */
export class WeakMemo<K extends object, V> {
  readonly #enabled: boolean;
  readonly #results = new WeakMap<K, Cached<V>>();
  #asked = 0;
  #made = 0;

  constructor(enabled: boolean) {
    this.#enabled = enabled;
  }

  /** The result for `key`: from the cache, or computed now. Throws what `make` throws, and caches nothing then. */
  get(key: K, make: () => V): V {
    this.#asked++;
    const known = this.#enabled ? this.#results.get(key) : undefined;
    if (known !== undefined) return resultOf(known);
    this.#made++;
    const value = make();
    if (this.#enabled) this.#results.set(key, cached(value));
    return value;
  }

  /** Whether there is a cached result for `key`. */
  has(key: K): boolean {
    return this.#results.has(key);
  }

  get counts(): MemoCounts {
    return { asked: this.#asked, made: this.#made };
  }
}

/** Cached results of one computation over two objects. An entry lives as long as both of them. */
export class WeakPairMemo<A extends object, B extends object, V> {
  readonly #enabled: boolean;
  readonly #results = new WeakMap<A, WeakMap<B, Cached<V>>>();
  #asked = 0;
  #made = 0;

  constructor(enabled: boolean) {
    this.#enabled = enabled;
  }

  /**
   * The result for these two, in this order: from the cache, or computed now. Throws what `make` throws, and caches
   * nothing then.
   */
  get(one: A, two: B, make: () => V): V {
    this.#asked++;
    const known = this.#enabled ? this.#results.get(one)?.get(two) : undefined;
    if (known !== undefined) return resultOf(known);
    this.#made++;
    const value = make();
    if (!this.#enabled) return value;
    let ofOne = this.#results.get(one);
    if (ofOne === undefined) {
      ofOne = new WeakMap();
      this.#results.set(one, ofOne);
    }
    ofOne.set(two, cached(value));
    return value;
  }

  /** The cached result for these two, if there is one. */
  peek(one: A, two: B): V | undefined {
    const known = this.#results.get(one)?.get(two);
    return known === undefined ? undefined : resultOf(known);
  }

  get counts(): MemoCounts {
    return { asked: this.#asked, made: this.#made };
  }
}

/** The memos of one owner (a model and what is generated from it), by name. */
export class Memos {
  /** False: nothing is cached, every result is computed again. */
  readonly enabled: boolean;
  readonly #byName = new Map<string, WeakMemo<object, unknown>>();
  readonly #pairsByName = new Map<string, WeakPairMemo<object, object, unknown>>();

  /** @param enabled false: nothing is cached, every result is computed again */
  constructor({ enabled = true }: { readonly enabled?: boolean } = {}) {
    this.enabled = enabled;
  }

  /** The cache of this name. One name stands for one computation: the same types of key and result. */
  weak<K extends object, V>(name: string): WeakMemo<K, V> {
    let memo = this.#byName.get(name);
    if (memo === undefined) {
      memo = new WeakMemo<object, unknown>(this.enabled);
      this.#byName.set(name, memo);
    }
    return memo as unknown as WeakMemo<K, V>;
  }

  /** The cache of this name for results of two objects. These names are separate from those of {@link weak}. */
  pairs<A extends object, B extends object, V>(name: string): WeakPairMemo<A, B, V> {
    let memo = this.#pairsByName.get(name);
    if (memo === undefined) {
      memo = new WeakPairMemo<object, object, unknown>(this.enabled);
      this.#pairsByName.set(name, memo);
    }
    return memo as unknown as WeakPairMemo<A, B, V>;
  }

  counts(): ReadonlyMap<string, MemoCounts> {
    return new Map([...this.#byName, ...this.#pairsByName].map(([name, memo]) => [name, memo.counts]));
  }
}
