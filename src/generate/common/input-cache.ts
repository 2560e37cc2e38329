/**
 * Caches results by their inputs: ten namespaces with the same view of a service share one cluster, which is generated
 * once. The computation receives only the input object, and every member of that object is compared before a result is
 * used again, so that nothing can be read without being part of the key.
 */
import type { Memos } from '../../core/memo.ts';
import { type Facts, noteAll, recorded } from '../reads/index.ts';

interface Entry<Result> {
  readonly values: readonly unknown[];
  readonly result: Result;
  readonly facts: Facts;
}

/** Number of results per anchor that are always cached: namespaces may have different settings for a service. */
const ALWAYS_CACHED = 24;

/**
 * Maximum number of results per anchor. Proxies in different localities have different results: with fewer entries than
 * localities, each result would be computed again every time. The oldest is evicted first.
 */
const MAX_ENTRIES = 256;

/**
 * With more than {@link ALWAYS_CACHED} results, the maximum number of results whose inputs only differ in objects. Most
 * of these are results for older versions of changed objects: the endpoints of a service can change a thousand times a
 * day.
 */
const MAX_VERSIONS = 4;

/**
 * Attaches results to an anchor, which is one of the inputs and immutable, in a memo of the model. Inputs are compared
 * member by member with `Object.is`; they always have the same members in the same order.
 */
export class InputCache<Inputs extends object, Result> {
  readonly #name: string;
  readonly #make: (inputs: Inputs, memos: Memos) => Result;

  constructor(name: string, make: (inputs: Inputs, memos: Memos) => Result) {
    this.#name = name;
    this.#make = make;
  }

  /** If the computation throws an error, it is rethrown and nothing is cached. */
  get(memos: Memos, anchor: object, inputs: Inputs): Result {
    const values: readonly unknown[] = Object.values(inputs);
    const entries = memos.weak<object, Entry<Result>[]>(this.#name).get(anchor, () => []);
    for (const entry of entries) {
      if (!areSame(entry.values, values)) continue;
      noteAll(entry.facts);
      return entry.result;
    }
    const { value: result, facts } = recorded(() => this.#make(inputs, memos));
    evict(entries, values);
    entries.push({ values, result, facts });
    return result;
  }
}

/** Removes an entry if there are too many for a new one with these values. */
function evict(entries: Entry<unknown>[], values: readonly unknown[]): void {
  if (entries.length < ALWAYS_CACHED) return;
  const versions = entries.filter((entry) => haveSameScalars(entry.values, values));
  const [oldest] = versions.length >= MAX_VERSIONS ? versions : entries.length >= MAX_ENTRIES ? entries : [];
  if (oldest !== undefined) entries.splice(entries.indexOf(oldest), 1);
}

/** Whether the values only differ in objects. An absent object counts as another version. */
function haveSameScalars(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.every(
    (value, index) => isVersion(value) === isVersion(b[index]) && (isVersion(value) || value === b[index]),
  );
}

function isVersion(value: unknown): boolean {
  return typeof value === 'object' || value === undefined;
}

function areSame(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false;
  return true;
}
