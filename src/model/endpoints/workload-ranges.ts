/**
 * The address ranges of Pods, nodes and API servers. If a document of another namespace applies to many addresses at
 * once (a range, or a port without an address), it does not apply to connections into these ranges. Every listener of
 * such a port contains the ranges, so their number is limited: single addresses in a small mesh, and the blocks that
 * contain them in a larger one, which also change less often.
 */
import { PMap } from '../../core/pmap.ts';
import type { AnyResource, Resource, ResourceChange } from '../../resources/index.ts';
import { isApiServerKey } from '../addresses/address-owners.ts';
import { type Counts, NO_COUNTS, nextCounts } from '../common/counts.ts';
import { deepEqual } from '../common/equal.ts';
import { canonicalBytes } from '../common/networks.ts';
import { compareText } from '../common/order.ts';
import { isFinished, podAddresses } from '../workloads/workloads.ts';
import { bareAddresses, type EndpointsDocument } from './endpoint-documents.ts';

/** Maximum ranges of an address family. */
export const MAX_WORKLOAD_RANGES = 64;

/** The workloads in the ranges of one prefix length. */
interface RangeCounts {
  /** Number of bytes of an address. */
  readonly bytes: number;
  readonly prefixLength: number;
  /** Range → number of resources with an address in it. */
  readonly counts: PMap<number>;
}

export interface WorkloadRanges {
  /** By address family, the longest prefix length first. */
  readonly families: readonly (readonly RangeCounts[])[];
  /** CIDR notation, sorted; the same object until they change. */
  readonly ranges: readonly string[];
}

function noCounts(bytes: number, prefixLengths: readonly number[]): readonly RangeCounts[] {
  return prefixLengths.map((prefixLength) => ({ bytes, prefixLength, counts: PMap.empty() }));
}

/** The first of these prefix lengths with few enough ranges is used. The Pods of a node usually have a /24 or /64. */
export const NO_WORKLOAD_RANGES: WorkloadRanges = {
  families: [noCounts(4, [32, 24, 20, 16, 12, 8, 0]), noCounts(16, [128, 64, 56, 48, 40, 32, 16, 0])],
  ranges: [],
};

/** The bytes of an IP address. */
type Bytes = readonly number[];

/** A resource whose addresses changed. */
interface Move {
  readonly before: readonly Bytes[];
  readonly after: readonly Bytes[];
}

/** The ranges after these resources changed. */
export function nextWorkloadRanges(before: WorkloadRanges, changed: readonly ResourceChange[]): WorkloadRanges {
  const moves = changed.flatMap(({ key, before: was, after: is }): Move[] => {
    const [before, after] = [workloadAddresses(key, was), workloadAddresses(key, is)];
    return deepEqual(before, after) ? [] : [{ before: bytesOf(before), after: bytesOf(after) }];
  });
  if (moves.length === 0) return before;
  const families = before.families.map((family) => family.map((each) => counted(each, moves)));
  const ranges = families.flatMap(smallest).sort(compareText);
  return { families, ranges: deepEqual(before.ranges, ranges) ? before.ranges : ranges };
}

function counted(known: RangeCounts, moves: readonly Move[]): RangeCounts {
  const ranges = moves.map(({ before, after }) => ({ before: rangesOf(before, known), after: rangesOf(after, known) }));
  return { ...known, counts: nextCounts(known.counts, ranges) };
}

/** The ranges of the longest prefix length for which there are few enough. */
function smallest(family: readonly RangeCounts[]): readonly string[] {
  const few = family.find(({ counts }) => counts.size <= MAX_WORKLOAD_RANGES);
  return few === undefined ? [] : [...few.counts.keys()];
}

/** The addresses of a resource that is a workload, a node or the endpoints of an API server. */
function workloadAddresses(key: string, resource: AnyResource | undefined): readonly string[] {
  switch (resource?.kind) {
    case 'Pod': {
      const pod = resource as Resource<'Pod'>;
      return isFinished(pod) ? [] : podAddresses(pod);
    }
    case 'Node':
      return nodeAddresses(resource as Resource<'Node'>);
    case 'Endpoints':
    case 'EndpointSlice':
      return isApiServerKey(key) ? bareAddresses(resource as EndpointsDocument) : [];
    default:
      return [];
  }
}

/** The addresses of a node, and its names. */
export function nodeAddresses({ content }: Resource<'Node'>): readonly string[] {
  return (content.status?.addresses ?? []).map(({ address }) => address);
}

function bytesOf(addresses: readonly string[]): readonly Bytes[] {
  return addresses.flatMap((address) => {
    const bytes = canonicalBytes(address);
    return bytes === undefined ? [] : [bytes];
  });
}

/** The ranges that contain some of the addresses. */
function rangesOf(addresses: readonly Bytes[], { bytes: size, prefixLength }: RangeCounts): Counts {
  const ranges = new Map<string, number>();
  for (const bytes of addresses) if (bytes.length === size) ranges.set(rangeText(bytes, prefixLength), 1);
  return ranges.size === 0 ? NO_COUNTS : ranges;
}

function rangeText(bytes: Bytes, length: number): string {
  const masked = bytes.map((byte, index) => byte & (0xff00 >> Math.max(0, Math.min(8, length - index * 8))));
  if (masked.length === 4) return `${masked.join('.')}/${length}`;
  const groups: string[] = [];
  for (let at = 0; at < masked.length; at += 2)
    groups.push((((masked[at] ?? 0) << 8) | (masked[at + 1] ?? 0)).toString(16));
  return `${groups.join(':')}/${length}`;
}
