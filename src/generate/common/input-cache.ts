/**
 * Results kept for those who come with the same inputs: ten namespaces that see a service alike get one cluster, made once. What
 * makes a result is given only the input object, and every member of that object is compared before a result is used again, so
 * that nothing can be read without being part of the key.
 */
import { type Facts, noteAll, recorded } from '../reads/index.ts';

interface Entry<Result> {
  readonly values: readonly unknown[];
  readonly result: Result;
  /** What was read for it through the inputs. */
  readonly facts: Facts;
}

/** Ways in which the views of a mesh see one object differently. The oldest goes first. */
const MAX_ENTRIES = 24;

/**
 * Hangs results on an anchor, which is one of the inputs and immutable, by weak reference: they go with it. Inputs are compared
 * member by member with `Object.is`; they always have the same members in the same order.
 */
export class InputCache<Inputs extends object, Result> {
  readonly #make: (inputs: Inputs) => Result;
  readonly #anchored = new WeakMap<object, Entry<Result>[]>();

  constructor(make: (inputs: Inputs) => Result) {
    this.#make = make;
  }

  /** Throws what making the result throws; then nothing is kept. */
  get(anchor: object, inputs: Inputs): Result {
    const values: readonly unknown[] = Object.values(inputs);
    const entries = this.#anchored.get(anchor);
    if (entries !== undefined) {
      for (const entry of entries) {
        if (!areSame(entry.values, values)) continue;
        noteAll(entry.facts);
        return entry.result;
      }
    }
    const { value: result, facts } = recorded(() => this.#make(inputs));
    if (entries === undefined) this.#anchored.set(anchor, [{ values, result, facts }]);
    else {
      if (entries.length >= MAX_ENTRIES) entries.shift();
      entries.push({ values, result, facts });
    }
    return result;
  }
}

function areSame(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false;
  return true;
}
