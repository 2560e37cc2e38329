/** The orders that make snapshots independent of arrival: code-unit order of names, and "oldest first" of resources. */
import type { ResourceMeta } from '../../resources/index.ts';

export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Oldest first; a resource without creation time comes before all others. */
export function compareCreated(a: number | undefined, b: number | undefined): number {
  if (a === b) return 0;
  if (a === undefined) return -1;
  return b === undefined ? 1 : a - b;
}

interface Dated extends Pick<ResourceMeta, 'namespace' | 'name'> {
  readonly created?: number | undefined;
}

/** Precedence among resources of one kind: oldest first, then by namespace, then by name. */
export function compareMeta(a: Dated, b: Dated): number {
  return compareCreated(a.created, b.created) || compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}

/** The first index for which `isBehind` is true; it must be true for all later indexes. */
export function lowerBound(length: number, isBehind: (index: number) => boolean): number {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBehind(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
