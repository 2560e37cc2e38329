/**
 * Items wait in the order of their arrival, preferred items before the others. After a few preferred items in a row,
 * one of the others is next, so that preferred items do not starve them.
 */

/** Preferred items that are taken one after the other while others wait. */
const PREFERRED_IN_A_ROW = 3;

export class Lane<T> {
  readonly #preferred = new Set<T>();
  readonly #others = new Set<T>();
  /** Preferred items that were taken since the last other item, or since others began to wait. */
  #row = 0;

  get size(): number {
    return this.#preferred.size + this.#others.size;
  }

  /** Appends an item, or moves a waiting item to the preferred ones. Returns true if it did not wait before. */
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

  /** The item that {@link take} returns next. */
  get first(): T | undefined {
    const [item] = this.#next;
    return item;
  }

  /** Removes and returns the first item. */
  take(): T | undefined {
    const from = this.#next;
    const [item] = from;
    if (item === undefined) return undefined;
    from.delete(item);
    this.#row = from === this.#preferred && this.#others.size > 0 ? this.#row + 1 : 0;
    return item;
  }

  get #next(): Set<T> {
    if (this.#preferred.size === 0) return this.#others;
    return this.#others.size > 0 && this.#row >= PREFERRED_IN_A_ROW ? this.#others : this.#preferred;
  }
}
