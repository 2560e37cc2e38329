/**
 * Excludes the addresses of workloads from filter chains. A service for a whole port or an address range does not
 * receive connections to Pods, nodes and API servers from callers of other namespaces: in the ranges of these, a
 * listener has the same chains as without that service.
 *
 * Envoy matches the destination first and does not fall back to a wider range
 * (https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/listener/v3/listener_components.proto, FilterChainMatch),
 * so all that applies in such a range is repeated for it.
 */

import { decidesForAll } from '../../model/index.ts';
import { addressKey, hasFamilyOf, RangeIndex } from '../common/index.ts';
import { isUnspecified, type OutboundListenerPlan } from '../listener-plans/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { NodeFamilies, OutboundView } from '../views.ts';
import type { L4Chain } from './l4-chains.ts';
import type { Surroundings } from './listener-assembly.ts';

/** The properties of a listener other than its chains. */
export interface WorkloadSharing {
  readonly port: number;
  /** The ranges of workloads. */
  readonly workloads: () => readonly string[];
  /** Whether documents of this namespace do not apply to the callers, which are in another one. */
  readonly isForeign: (namespace: string) => boolean;
  /** For connections to unknown destinations. */
  readonly unknown: () => L4Chain['filters'];
  /** Namespaces of the headless Services whose Pods serve HTTP at the port. */
  readonly httpPods: ReadonlySet<string>;
  /** Ranges of services in which HTTP is detected. */
  readonly httpRanges: readonly string[];
}

export interface WorkloadChains {
  readonly chains: readonly L4Chain[];
  readonly httpRanges: readonly string[];
  readonly conflicts: readonly string[];
}

/** Replaces a range: all destinations. */
const ANYWHERE = '';

/** The chains of a listener, changed so that those of foreign documents do not match addresses of workloads. */
export function besideWorkloads(chains: readonly L4Chain[], sharing: WorkloadSharing): WorkloadChains {
  const { port } = sharing;
  const takers = new Set(chains.filter((chain) => isForeignTaker(chain, sharing)));
  const others = chains.filter((chain) => !takers.has(chain));
  const widened = others.filter((chain) => chain.ranges.length > 0 && isBesideHttpPods(chain, sharing));
  const workloads = takers.size > 0 || widened.length > 0 ? sharing.workloads() : [];
  if (workloads.length === 0) return { chains, httpRanges: sharing.httpRanges, conflicts: [] };
  const ofWorkloads = new RangeIndex(workloads);
  const conflicts: string[] = [];
  const kept = chains.flatMap((chain) => {
    if (!takers.has(chain) || chain.ranges.length === 0) return [chain];
    const inside = rangesInside(chain, ofWorkloads);
    for (const range of inside) conflicts.push(`${chain.owner}: port ${port} of ${range} belongs to workloads there`);
    const ranges = chain.ranges.filter((range) => !inside.includes(range));
    return ranges.length === 0 ? [] : [{ ...chain, ranges }];
  });
  const httpRanges = [...sharing.httpRanges, ...widened.flatMap((chain) => rangesInside(chain, ofWorkloads))];
  const taken = kept.filter((chain) => isForeignTaker(chain, sharing)).flatMap(destinationsOf);
  const groups = workloadGroups(workloads, taken, others, [...httpRanges, ...widened.flatMap(destinationsOf)]);
  const repeated = [...groups].flatMap(([range, group]) => {
    if (group.http) httpRanges.push(...group.ranges);
    return chainsIn(group.ranges, range, others, sharing);
  });
  return { chains: [...repeated, ...kept], httpRanges, conflicts };
}

/** Whether a chain of foreign documents matches all connections to its destinations, with any server name. */
function isForeignTaker({ writers, serverNames }: L4Chain, { isForeign }: WorkloadSharing): boolean {
  return serverNames.length === 0 && writers.some(isForeign);
}

/** Whether HTTP to Pods of another namespace may be in the ranges of a chain. */
function isBesideHttpPods({ service }: L4Chain, { httpPods }: WorkloadSharing): boolean {
  return httpPods.size > (httpPods.has(service?.namespace ?? '') ? 1 : 0);
}

function destinationsOf({ ranges }: L4Chain): readonly string[] {
  return ranges.length === 0 ? [ANYWHERE] : ranges;
}

/**
 * The ranges of a chain that are inside ranges of workloads. A single address of the chain's service does not count.
 */
function rangesInside({ ranges, service }: L4Chain, workloads: RangeIndex): readonly string[] {
  if (ranges.length === 0) return ranges;
  const own = new Set(service?.addresses.map(addressKey));
  return ranges.filter((range) => {
    const key = addressKey(range);
    return workloads.around(range) !== undefined && !(SINGLE.test(key) && own.has(key));
  });
}

/** The key of a single address. */
const SINGLE = /^(?:\d+\.){3}\d+\/32$|\/128$/;

interface WorkloadGroup {
  readonly ranges: string[];
  readonly http: boolean;
}

/**
 * The ranges of workloads that need their own chains, by the range of other chains that contains them.
 * @param taken the destinations of foreign chains
 * @param detected ranges in which HTTP is detected
 */
function workloadGroups(
  workloads: readonly string[],
  taken: readonly string[],
  others: readonly L4Chain[],
  detected: readonly string[],
): ReadonlyMap<string, WorkloadGroup> {
  const everywhere = taken.includes(ANYWHERE);
  const ofTakers = new RangeIndex(taken);
  const ofOthers = new RangeIndex(others.flatMap(({ ranges }) => ranges));
  const withHttp = new Set(detected.map(addressKey));
  const groups = new Map<string, WorkloadGroup>();
  for (const range of workloads) {
    const around = ofOthers.around(range);
    const key = around === undefined ? ANYWHERE : addressKey(around);
    const http = around === undefined || withHttp.has(key);
    if (!everywhere && !(around !== undefined && http) && ofTakers.around(range) === undefined) continue;
    const group = groups.get(key) ?? { ranges: [], http };
    groups.set(key, group);
    group.ranges.push(range);
  }
  return groups;
}

/** The chains for a range of others, or for all destinations, repeated for the ranges of workloads in it. */
function chainsIn(
  ranges: readonly string[],
  key: string,
  others: readonly L4Chain[],
  { unknown }: WorkloadSharing,
): readonly L4Chain[] {
  const applying = others.filter((chain) => destinationsOf(chain).some((range) => addressKey(range) === key));
  const repeated = applying.map((chain) => ({ ...chain, ranges }));
  if (repeated.some(({ serverNames }) => serverNames.length === 0)) return repeated;
  const rest = { ranges, serverNames: [], filters: unknown(), owner: 'workloads', writers: [], service: undefined };
  return [...repeated, rest];
}

/** Whether connections to any address can reach the listener. A bound socket only receives connections to itself. */
export function isSharedByAll({ bind, bindToPort, tcp }: Omit<OutboundListenerPlan, 'egress'>): boolean {
  return !bindToPort && isUnspecified(bind) && tcp.some(({ shared }) => shared);
}

/** Returns whether documents of a namespace do not apply to callers of this one. */
export function foreignNamespaces(
  mesh: Pick<Surroundings, 'mesh' | 'settings'>,
  callers: string | undefined,
): WorkloadSharing['isForeign'] {
  return (namespace) => namespace !== callers && !decidesForAll(namespace, mesh);
}

type ByFamilies = Partial<Record<NodeFamilies, readonly string[]>>;

/** The ranges of workloads that a node can reach: one list for all nodes with the same address families. */
export function workloadRangesOf(snapshot: MeshReader, view: OutboundView): readonly string[] {
  const { memos, workloadRanges } = snapshot;
  const known = memos.weak<readonly string[], ByFamilies>('workload ranges by family').get(workloadRanges, () => ({}));
  known[view.families] ??= workloadRanges.filter((range) => hasFamilyOf(view, range));
  return known[view.families] ?? workloadRanges;
}
