/**
 * Counts what a proxy gets because others have asked for it. It gets this before it has said which virtual hosts it
 * had: those do not count.
 */
import { type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';

export class LearnedCount {
  readonly #names: NameSets;
  #uncounted = NO_NAMES;
  /** The proxy has said which virtual hosts it had. */
  isDue = false;

  constructor(names: NameSets) {
    this.#names = names;
  }

  add(learned: NameSet): void {
    this.#uncounted = this.#names.change(this.#uncounted, learned, NO_NAMES);
  }

  /** How many were added since the last time. @param had what the proxy had */
  take(had: NameSet): number {
    if (!this.isDue || this.#uncounted.size === 0) return 0;
    const { size } = this.#names.outside(this.#uncounted, had);
    this.#uncounted = NO_NAMES;
    return size;
  }
}
