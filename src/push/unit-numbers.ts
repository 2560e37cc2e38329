/**
 * Units that a worker has told the main thread before are not told again. Views of different namespaces hold nearly the same, and generation
 * gives all of them the very same resources: what a worker has sent once it names by a number from then on.
 *
 * Both sides forget by themselves, each when nobody has the unit any more. A number that the main thread cannot follow costs a
 * repeated job before which the worker is told to forget; so neither has to know what the other still has.
 */
import type { JobAnswer } from '../../workers/protocol.ts';
import type { GeneratedResource } from '../generate/types.ts';
import type { EncodedResource } from './types.ts';

/** A unit without resources needs no number. */
const NO_NUMBER = 0;

interface Said {
  readonly resources: readonly GeneratedResource[];
  readonly number: number;
}

/** Units with the same first resource that are told apart, as of one port that namespaces see differently. The oldest goes first. */
const MAX_ALIKE = 24;

/** The worker's side. Units are the same when they consist of the same objects, which are immutable; so no content is compared. */
export class SaidUnits {
  /** By the unit's first resource: what is kept goes when generation lets the resource go. */
  readonly #byFirst = new WeakMap<GeneratedResource, Said[]>();
  #last = NO_NUMBER;

  /** The number of the unit that consists of these resources, and whether it was said before. */
  say(resources: readonly GeneratedResource[]): { readonly number: number; readonly again: boolean } {
    const [first] = resources;
    if (first === undefined) return { number: NO_NUMBER, again: false };
    const alike = this.#byFirst.get(first);
    const known = alike?.find((said) => areSame(said.resources, resources));
    if (known !== undefined) return { number: known.number, again: true };
    const number = ++this.#last;
    if (alike === undefined) this.#byFirst.set(first, [{ resources, number }]);
    else {
      if (alike.length >= MAX_ALIKE) alike.shift();
      alike.push({ resources, number });
    }
    return { number, again: false };
  }
}

function areSame(a: readonly GeneratedResource[], b: readonly GeneratedResource[]): boolean {
  return a === b || (a.length === b.length && a.every((each, index) => each === b[index]));
}

/** Units by number, as the answers of one worker name them. */
export type NumberedUnits = ReadonlyMap<number, readonly EncodedResource[]>;

/** Below this many the dead ones are not looked for. */
const MIN_SWEPT = 1024;

/** The main thread's side: one for each worker, begun anew whenever that is told to forget. */
export class HeardUnits {
  readonly #units = new Map<number, WeakRef<readonly EncodedResource[]>>();
  #sweepAbove = MIN_SWEPT;

  /** Units held now, of which some may be gone. */
  get size(): number {
    return this.#units.size;
  }

  hear(number: number, resources: readonly EncodedResource[]): void {
    if (number === NO_NUMBER) return;
    this.#units.set(number, new WeakRef(resources));
    if (this.#units.size <= this.#sweepAbove) return;
    for (const [each, unit] of this.#units) if (unit.deref() === undefined) this.#units.delete(each);
    this.#sweepAbove = Math.max(MIN_SWEPT, 2 * this.#units.size);
  }

  /** The units that these answers name without telling them; undefined when one of them is gone. */
  recall(answers: readonly JobAnswer[]): NumberedUnits | undefined {
    const recalled = new Map<number, readonly EncodedResource[]>();
    for (const { units } of answers)
      for (const { number, resources } of units) {
        if (resources !== undefined) continue;
        const unit = this.#units.get(number)?.deref();
        if (unit === undefined) return undefined;
        recalled.set(number, unit);
      }
    return recalled;
  }
}
