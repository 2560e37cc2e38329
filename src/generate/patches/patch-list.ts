/** Patches a list: virtual hosts, routes, filter chains or filters. */
import { isMerge } from './merge.ts';
import type { PatchIndex } from './patch-index.ts';
import type { FilterClass, Patch } from './types.ts';

export interface ItemPatcher<T> {
  readonly matches: (item: T, patch: Patch) => boolean;
  /** Whether a patch names an item: an insertion without a name goes to the beginning or end of the list. */
  readonly namesItem: (patch: Patch) => boolean;
  readonly merge: (item: T, patch: Patch) => T;
  readonly decode: (value: Uint8Array) => T;
  /** The index of an addition in the list; absent: the end. */
  readonly placeOf?: (list: readonly T[], filterClass: FilterClass, added: ReadonlyMap<T, FilterClass>) => number;
  /** Patches the content of an item, after the item itself has been patched. */
  readonly inside?: (item: T) => T;
}

/**
 * The list after these patches; the same object if it is unchanged. Items are removed and merged first, each by all
 * patches in their order; then items are added. An insertion next to a missing item has no effect.
 */
export function patchList<T extends object>(
  list: readonly T[],
  index: PatchIndex<T>,
  patcher: ItemPatcher<T>,
): readonly T[] {
  const kept = list.map((item) => patchItem(item, index, patcher)).filter((item) => item !== undefined);
  const items = kept.length === list.length && kept.every((item, at) => item === list[at]) ? list : kept;
  const added = new Map<T, FilterClass>();
  return index.patches.reduce((current, patch) => insert(current, patch, patcher, added), items);
}

/** The item after these patches; the same object if it is unchanged, undefined if it is removed. */
export function patchItem<T extends object>(item: T, index: PatchIndex<T>, patcher: ItemPatcher<T>): T | undefined {
  const patched = index.reduce(item, (current, patch) => {
    const isRemoval = patch.operation === 'REMOVE';
    if (!(isMerge(patch) || isRemoval) || !patcher.matches(current, patch)) return current;
    return isRemoval ? undefined : patcher.merge(current, patch);
  });
  return patched && (patcher.inside?.(patched) ?? patched);
}

/** @param added the items of classes that were inserted before */
function insert<T extends object>(
  list: readonly T[],
  patch: Patch,
  patcher: ItemPatcher<T>,
  added: Map<T, FilterClass>,
): readonly T[] {
  const { operation, value, filterClass } = patch;
  if (isMerge(patch) || operation === 'REMOVE') return list;
  const item = patcher.decode(value);
  if (operation === 'ADD') {
    if (filterClass === undefined || patcher.placeOf === undefined) return [...list, item];
    const place = patcher.placeOf(list, filterClass, added);
    added.set(item, filterClass);
    return list.toSpliced(place, 0, item);
  }
  const isNamed = patcher.namesItem(patch);
  const found = isNamed ? list.findIndex((each) => patcher.matches(each, patch)) : -1;
  if (operation === 'REPLACE') return found < 0 ? list : list.with(found, item);
  if (isNamed && found < 0) return list;
  if (operation === 'INSERT_AFTER') return list.toSpliced(isNamed ? found + 1 : list.length, 0, item);
  return list.toSpliced(isNamed && operation === 'INSERT_BEFORE' ? found : 0, 0, item);
}
