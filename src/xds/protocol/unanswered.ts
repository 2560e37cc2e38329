/**
 * Names of a subscription that no response has answered yet, where they are many: a response answers a portion of them,
 * so that no request takes long, however many names it has.
 */

/** Most names that a response answers because they were subscribed to: more than a proxy adds at a time. */
export const PORTION = 10_000;

export class Unanswered {
  readonly #waiting: Iterator<string>[] = [];

  get empty(): boolean {
    return this.#waiting.length === 0;
  }

  /** The names are not changed meanwhile. */
  add(names: Iterable<string>): void {
    this.#waiting.push(names[Symbol.iterator]());
  }

  clear(): void {
    this.#waiting.length = 0;
  }

  /** Takes the next names up to a portion of those that fit. */
  take(fits: (name: string) => boolean): string[] {
    const taken: string[] = [];
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      for (let next = first.next(); next.done !== true; next = first.next()) {
        if (fits(next.value)) taken.push(next.value);
        if (taken.length >= PORTION) return taken;
      }
      this.#waiting.shift();
    }
    return taken;
  }
}
