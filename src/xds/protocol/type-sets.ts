/** Sets of resource types, some of them as bits. */
import { byXdsType, XDS, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';

/** Types as bits of a set. */
export const BIT: Readonly<Record<XdsType, number>> = byXdsType((type) => 1 << XDS_TYPES.indexOf(type));

function bitsOf(types: readonly XdsType[]): number {
  return types.reduce((bits, type) => bits | BIT[type], 0);
}

export const ALL_BITS = bitsOf(XDS_TYPES);
/** Types whose resources refer to others, so that removals wait for them. */
export const REFERRING = XDS_TYPES.filter((type) => XDS[type].refersTo.length > 0);
export const REFERRING_BITS = bitsOf(REFERRING);
/** Types that point to clusters. */
export const CLUSTER_USERS = XDS_TYPES.filter((type) => XDS[type].refersTo.includes('cds'));
export const CLUSTER_USER_BITS = bitsOf(CLUSTER_USERS);
