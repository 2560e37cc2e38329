/** The virtual IPs (cluster IPs) of orchestrator Services, and an index of those that other clusters have. */
import { PMap } from '../../core/pmap.ts';
import type { AnyResource, Resource, ResourceChange } from '../../resources/index.ts';
import { NO_COUNTS, nextCounts } from '../common/counts.ts';
import { GroupEdits, type Groups, membersOf } from '../common/groups.ts';
import { addressId } from '../common/networks.ts';
import { ofKind } from '../common/tables.ts';

export function clusterIps({ content }: Resource<'Service'>): readonly string[] {
  const { clusterIP, clusterIPs, type } = content.spec;
  if (type === 'ExternalName') return [];
  const written = clusterIPs ?? (clusterIP === undefined ? [] : [clusterIP]);
  return written.filter((ip) => ip !== '' && ip !== 'None');
}

/** The same, in the form of `addressId`. */
export function virtualIps(resource: Resource<'Service'> | undefined): readonly string[] {
  return resource === undefined
    ? []
    : [...new Set(clusterIps(resource).flatMap((address) => addressId(address) ?? []))];
}

/**
 * The virtual IPs of other clusters' Services. They are counted and not listed: the API server of a remote cluster can
 * assign one address to any number of Services, and the cost of one of them must not grow with their number.
 */
export interface RemoteVirtualIps {
  /** `<address> <cluster>` → number of the cluster's Services that have the address (`addressId`). */
  readonly counts: PMap<number>;
  /** Address → the clusters in which a Service has it. */
  readonly clusters: Groups;
}

export const NO_REMOTE_VIRTUAL_IPS: RemoteVirtualIps = { counts: PMap.empty(), clusters: PMap.empty() };

export function nextRemoteVirtualIps(index: RemoteVirtualIps, changed: readonly ResourceChange[]): RemoteVirtualIps {
  const moves: { before: ReadonlyMap<string, number>; after: ReadonlyMap<string, number> }[] = [];
  for (const { before, after } of changed) {
    const [was, is] = [remoteIpsOf(before), remoteIpsOf(after)];
    if (was.size > 0 || is.size > 0) moves.push({ before: was, after: is });
  }
  if (moves.length === 0) return index;
  const counts = nextCounts(index.counts, moves);
  const edits = new GroupEdits();
  for (const key of counts.changedKeys(index.counts)) {
    const [address = '', cluster = ''] = separated(key);
    if (counts.has(key)) edits.add(address, cluster);
    else edits.remove(address, cluster);
  }
  return { counts, clusters: edits.apply(index.clusters) };
}

/** The clusters in which a Service has the address, in order. */
export function clustersOfAddress({ clusters }: RemoteVirtualIps, address: string): readonly string[] {
  return membersOf(clusters, address);
}

/** Number of Services of other clusters that have the address. */
export function countElsewhere({ clusters, counts }: RemoteVirtualIps, address: string): number {
  return membersOf(clusters, address).reduce((sum, cluster) => sum + (counts.get(`${address} ${cluster}`) ?? 0), 0);
}

function remoteIpsOf(resource: AnyResource | undefined): ReadonlyMap<string, number> {
  const cluster = resource?.meta.cluster;
  const service = ofKind(resource, 'Service');
  if (cluster === undefined || service === undefined) return NO_COUNTS;
  return new Map(virtualIps(service).map((address) => [`${address} ${cluster}`, 1]));
}

/** Addresses do not contain spaces. */
function separated(key: string): readonly string[] {
  const space = key.indexOf(' ');
  return [key.slice(0, space), key.slice(space + 1)];
}
