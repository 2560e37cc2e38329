/** A bounded cache whose entries end at a time; the oldest one is evicted when there are too many. */
export class ExpiringCache<T> {
  readonly #entries = new Map<string, { readonly value: T; readonly until: number }>();
  readonly #maxEntries: number;
  readonly #now: () => number;

  /** @param now the clock by which entries expire */
  constructor(maxEntries: number, now: () => number) {
    this.#maxEntries = maxEntries;
    this.#now = now;
  }

  get(key: string): T | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (this.#now() < entry.until) return entry.value;
    this.#entries.delete(key);
    return undefined;
  }

  set(key: string, value: T, until: number): void {
    this.#entries.delete(key);
    if (this.#entries.size >= this.#maxEntries) this.#entries.delete(this.#entries.keys().next().value ?? '');
    this.#entries.set(key, { value, until });
  }
}
