/**
 * Where resources lead proxies on demand. Views have nearly the same resources, so that what is found of one is kept
 * for all.
 */
import type { EncodedResource, LeadsTo } from '../../push/index.ts';
import { domainsOf } from './aliased-resource.ts';
import { clusterNamesIn } from './cluster-names.ts';
import { ANY } from './host-table.ts';

/** Of two versions of a virtual host. */
interface Compared {
  readonly before: WeakRef<EncodedResource>;
  readonly hasMore: boolean;
}

const CLUSTERS = new WeakMap<EncodedResource, ReadonlySet<string>>();
const WILDCARDS = new WeakMap<EncodedResource, boolean>();
const COMPARED = new WeakMap<EncodedResource, Compared>();

export const leadsTo: LeadsTo = {
  clusters(resource) {
    const known = CLUSTERS.get(resource);
    if (known !== undefined) return known;
    const { led } = clusterNamesIn(resource.fragment.subarray(resource.anyOffset));
    CLUSTERS.set(resource, led);
    return led;
  },
  hasWildcards(host) {
    const known = WILDCARDS.get(host) ?? domainsOf(host).some((domain) => domain.includes(ANY));
    WILDCARDS.set(host, known);
    return known;
  },
  hasMoreDomains(host, before) {
    const known = COMPARED.get(host);
    if (known?.before.deref() === before) return known.hasMore;
    const hasMore = !new Set(domainsOf(host)).isSubsetOf(new Set(domainsOf(before)));
    COMPARED.set(host, { before: new WeakRef(before), hasMore });
    return hasMore;
  },
};
