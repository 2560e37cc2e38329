/** The parts of a proxy, from the bundles of its views. */
import { byXdsType, type XdsType } from '../../core/xds-types.ts';
import type { Bundle, Parts } from '../types.ts';
import type { Bundles } from '../views/index.ts';

/** Parts, and the bundles of the views that they were built from. */
export interface SharedContent {
  readonly bundles: readonly Bundles[];
  readonly content: Parts;
}

export const NO_PARTS: Parts = byXdsType(() => []);

export const NOTHING_SHARED: SharedContent = { bundles: [], content: NO_PARTS };

/** Parts of a type: the same array as before while the bundles are the same. */
export function partsOf(type: XdsType, seen: readonly Bundles[], before: Parts): readonly Bundle[] {
  const known = before[type];
  let same = known.length === seen.length;
  for (let index = 0; same && index < seen.length; index++) same = known[index] === seen[index]?.[type];
  return same ? known : seen.map((bundles) => bundles[type]);
}
