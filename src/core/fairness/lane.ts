/** Items that wait in the order of their arrival, those that are preferred before the others. */
export class Lane<T> {
  readonly #preferred = new Set<T>();
  readonly #others = new Set<T>();

  get size(): number {
    return this.#preferred.size + this.#others.size;
  }

  /** Appends an item, or prefers one that waits already. Returns true when it did not wait before. */
  add(item: T, preferred = false): boolean {
    if (this.#preferred.has(item)) return false;
    const isNew = preferred ? !this.#others.delete(item) : !this.#others.has(item);
    (preferred ? this.#preferred : this.#others).add(item);
    return isNew;
  }

  /** Returns false when the item did not wait. */
  delete(item: T): boolean {
    return this.#preferred.delete(item) || this.#others.delete(item);
  }

  /** Removes and returns the first item. */
  take(): T | undefined {
    const from = this.#preferred.size > 0 ? this.#preferred : this.#others;
    const [item] = from;
    if (item !== undefined) from.delete(item);
    return item;
  }
}
