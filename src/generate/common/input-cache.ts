/**
 * Caches results by their inputs: ten namespaces that see a service alike share one cluster, generated once. The
 * computation receives only the input object, and every member of that object is compared before a result is used
 * again, so that nothing can be read without being part of the key.
 */
import type { Memos } from '../../core/memo.ts';
import { type Facts, noteAll, recorded } from '../reads/index.ts';

interface Entry<Result> {
  readonly values: readonly unknown[];
  readonly result: Result;
  /** Facts that were read through the inputs. */
  readonly facts: Facts;
}

/**
 * Maximum results per anchor: the ways in which the views of a mesh see one object differently, which are namespaces
 * with settings of their own and localities of proxies. With fewer entries, each would be computed again every time.
 * The oldest is evicted first.
 */
const MAX_ENTRIES = 256;

/**
 * Attaches results to an anchor, which is one of the inputs and immutable, in a memo of the model. Inputs are compared
 * member by member with `Object.is`; they always have the same members in the same order.
 */
export class InputCache<Inputs extends object, Result> {
  readonly #name: string;
  readonly #make: (inputs: Inputs, memos: Memos) => Result;

  /** @param name of the memo */
  constructor(name: string, make: (inputs: Inputs, memos: Memos) => Result) {
    this.#name = name;
    this.#make = make;
  }

  /** Throws what the computation throws; then nothing is cached. */
  get(memos: Memos, anchor: object, inputs: Inputs): Result {
    const values: readonly unknown[] = Object.values(inputs);
    const entries = memos.weak<object, Entry<Result>[]>(this.#name).get(anchor, () => []);
    for (const entry of entries) {
      if (!areSame(entry.values, values)) continue;
      noteAll(entry.facts);
      return entry.result;
    }
    const { value: result, facts } = recorded(() => this.#make(inputs, memos));
    if (entries.length >= MAX_ENTRIES) entries.shift();
    entries.push({ values, result, facts });
    return result;
  }
}

function areSame(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false;
  return true;
}
