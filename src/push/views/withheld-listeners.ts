/** Listener units that are withheld because their routes could not be generated. They are tried again with the routes. */
import type { Unit } from '../../generate/index.ts';
import type { JobAnswer } from '../protocol.ts';

const NONE: ReadonlySet<Unit> = new Set();

export class WithheldListeners {
  #units = NONE;

  get units(): ReadonlySet<Unit> {
    return this.#units;
  }

  /**
   * A job was committed.
   * @param withheld units of the job
   */
  update(answer: JobAnswer, withheld: ReadonlySet<Unit>): void {
    const made = new Set(answer.units.filter(({ type }) => type === 'lds').map(({ unit }) => unit));
    const still = answer.complete.includes('lds') ? NONE : this.#units.difference(made);
    this.#units = still.size + withheld.size === 0 ? NONE : still.union(withheld);
  }
}
