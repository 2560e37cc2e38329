/**
 * Results that are remembered by an object which they are made of. That object is immutable, and the result goes when
 * it does. The maker of a `Memos` owns what its memos remember, and can switch them off: results must be the same, only
 * slower.
 */

/** How often a memo was asked, and how often it had to make the result. */
export interface MemoCounts {
  readonly asked: number;
  readonly made: number;
}

/** Remembered results of one computation. */
export class WeakMemo<K extends object, V> {
  readonly #enabled: boolean;
  readonly #results = new WeakMap<K, { readonly value: V }>();
  #asked = 0;
  #made = 0;

  constructor(enabled: boolean) {
    this.#enabled = enabled;
  }

  /** The result for `key`: remembered, or made now. Throws what `make` throws; then nothing is remembered. */
  get(key: K, make: () => V): V {
    this.#asked++;
    const known = this.#enabled ? this.#results.get(key) : undefined;
    if (known !== undefined) return known.value;
    this.#made++;
    const value = make();
    if (this.#enabled) this.#results.set(key, { value });
    return value;
  }

  get counts(): MemoCounts {
    return { asked: this.#asked, made: this.#made };
  }
}

/** Remembered results of one computation over two objects: they go when either of these does. */
export class WeakPairMemo<A extends object, B extends object, V> {
  readonly #enabled: boolean;
  readonly #results = new WeakMap<A, WeakMap<B, { readonly value: V }>>();
  #asked = 0;
  #made = 0;

  constructor(enabled: boolean) {
    this.#enabled = enabled;
  }

  /**
   * The result for these two, in this order: remembered, or made now. Throws what `make` throws; then nothing is
   * remembered.
   */
  get(one: A, two: B, make: () => V): V {
    this.#asked++;
    const known = this.#enabled ? this.#results.get(one)?.get(two) : undefined;
    if (known !== undefined) return known.value;
    this.#made++;
    const value = make();
    if (!this.#enabled) return value;
    let ofOne = this.#results.get(one);
    if (ofOne === undefined) {
      ofOne = new WeakMap();
      this.#results.set(one, ofOne);
    }
    ofOne.set(two, { value });
    return value;
  }

  /** The result for these two where it is remembered. */
  peek(one: A, two: B): V | undefined {
    return this.#results.get(one)?.get(two)?.value;
  }

  get counts(): MemoCounts {
    return { asked: this.#asked, made: this.#made };
  }
}

/** The memos of one owner (a model and what is generated from it), by name. */
export class Memos {
  /** False: nothing is remembered, every result is made again. */
  readonly enabled: boolean;
  readonly #byName = new Map<string, WeakMemo<object, unknown>>();
  readonly #pairsByName = new Map<string, WeakPairMemo<object, object, unknown>>();

  /** @param enabled false: nothing is remembered, every result is made again */
  constructor({ enabled = true }: { readonly enabled?: boolean } = {}) {
    this.enabled = enabled;
  }

  /** The memo of this name. One name always means one computation: the same types of key and result. */
  weak<K extends object, V>(name: string): WeakMemo<K, V> {
    let memo = this.#byName.get(name);
    if (memo === undefined) {
      memo = new WeakMemo<object, unknown>(this.enabled);
      this.#byName.set(name, memo);
    }
    return memo as unknown as WeakMemo<K, V>;
  }

  /** The memo of this name for results of two objects. Names are apart from those of {@link weak}. */
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
