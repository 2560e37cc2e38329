/**
 * Indexes patches by what they match, such as the service of a cluster. An EnvoyFilter may have thousands of patches
 * for as many resources, and for each resource only those are examined that can match it.
 */
import type { Patch } from './types.ts';

/** The keys by which patches and items are compared. Whether a patch matches an item is decided separately. */
export interface PatchKeys<T> {
  /** The key of what a patch matches. */
  readonly keyOf: (patch: Patch) => string;
  /** The keys of all patches that can match an item; undefined if any patch can. */
  readonly keysOf: (item: T) => readonly string[] | undefined;
}

interface Filed {
  readonly patch: Patch;
  /** Its position among all patches. */
  readonly order: number;
}

/** With so few patches, looking at each costs less than the keys. */
const FEW = 4;

interface Filing<T> {
  readonly keysOf: PatchKeys<T>['keysOf'];
  readonly byKey: ReadonlyMap<string, readonly Filed[]>;
}

export class PatchIndex<T> {
  /** The patches in the order in which they apply. */
  readonly patches: readonly Patch[];
  readonly #all: readonly Filed[];
  /** Absent if all patches are examined for each item. */
  readonly #filing: Filing<T> | undefined;

  /** @param keys undefined: each item looks at all patches. That changes no result, only the speed. */
  constructor(patches: readonly Patch[], keys: PatchKeys<T> | undefined) {
    this.patches = patches;
    this.#all = patches.map((patch, order) => ({ patch, order }));
    if (keys === undefined || patches.length <= FEW) return;
    this.#filing = { keysOf: keys.keysOf, byKey: Map.groupBy(this.#all, ({ patch }) => keys.keyOf(patch)) };
  }

  /** The patches that can match an item, in their order. */
  for(item: T): readonly Patch[] {
    return this.#filing === undefined ? this.patches : this.#filedFor(item).map(({ patch }) => patch);
  }

  /**
   * Changes an item by each patch that can match it, in their order. A patch is compared with the item as the patches
   * before it have left it.
   *
   * @param change returns the item after a patch: the same object if the patch does not match, undefined if it removes
   * the item
   */
  reduce(item: T, change: (item: T, patch: Patch) => T | undefined): T | undefined {
    let current = item;
    let [list, at] = [this.#filedFor(current), 0];
    for (let filed = list[at]; filed !== undefined; filed = list[at]) {
      const { patch, order } = filed;
      const next = change(current, patch);
      if (next === undefined) return undefined;
      at++;
      if (!this.#hasEqualKeys(current, next)) {
        list = this.#filedFor(next);
        const rest = list.findIndex((each) => each.order > order);
        at = rest < 0 ? list.length : rest;
      }
      current = next;
    }
    return current;
  }

  #hasEqualKeys(one: T, other: T): boolean {
    if (one === other || this.#filing === undefined) return true;
    const [before, after] = [this.#filing.keysOf(one), this.#filing.keysOf(other)];
    return before?.length === after?.length && (before ?? []).every((key, index) => key === after?.[index]);
  }

  #filedFor(item: T): readonly Filed[] {
    const keys = this.#filing?.keysOf(item);
    if (keys === undefined) return this.#all;
    const lists = [...new Set(keys)].flatMap((key) => {
      const list = this.#filing?.byKey.get(key);
      return list === undefined ? [] : [list];
    });
    const [first = []] = lists;
    return lists.length < 2 ? first : lists.flat().sort((a, b) => a.order - b.order);
  }
}

/**
 * Every combination of each string or '' in its place: the matches that patches can have for an item with these
 * properties. '' stands for a property that a patch does not match.
 */
export function combinations(...texts: readonly string[]): readonly string[] {
  return texts.reduce<readonly string[]>(
    (made, text) => made.flatMap((before) => (text === '' ? [`${before}|`] : [`${before}|`, `${before}|${text}`])),
    [''],
  );
}

/** The combination that a patch matches. */
export function combination(...texts: readonly (string | number | undefined)[]): string {
  return texts.map((text) => `|${text ?? ''}`).join('');
}
