/** Which types a proxy gets other resources of when it moves to other views. */
import { XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { Bundle, Parts } from '../types.ts';

/** Types for which these parts have different resources. */
export function changedTypes(before: Parts, now: Parts): ReadonlySet<XdsType> {
  return new Set(XDS_TYPES.filter((type) => differs(before[type], now[type])));
}

function differs(before: readonly Bundle[], now: readonly Bundle[]): boolean {
  if (before.length !== now.length) return true;
  return now.some((bundle, index) => {
    const { changed, removed } = bundle.diffFrom(before[index]);
    return changed.length > 0 || removed.length > 0;
  });
}
