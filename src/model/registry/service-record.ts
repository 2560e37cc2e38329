/**
 * The intermediate results that one snapshot passes to the next for a service: its definition, and its endpoints in
 * parts. A change rebuilds the affected parts and merges the differences; other endpoints of the service are not
 * touched.
 */
import type { Resource } from '../../resources/index.ts';
import { withoutTakenAddresses, withoutTakenHost } from '../addresses/address-owners.ts';
import { withAllocatedAddresses } from '../addresses/allocated-addresses.ts';
import { withClusterAddresses } from '../addresses/cluster-addresses.ts';
import { type Counts, countBy, NO_COUNTS } from '../common/counts.ts';
import { deepEqual, keepIfEqual } from '../common/equal.ts';
import { compareText, lowerBound } from '../common/order.ts';
import { emptyPorts } from '../endpoints/empty-ports.ts';
import { EndpointCollector, type EndpointPart, type PartPlan } from '../endpoints/endpoint-part.ts';
import { type Definer, type EndpointIndexes, endpointPlans } from '../endpoints/endpoints.ts';
import { definitionOf, mergeDefinitions } from '../services/definitions.ts';
import type { Endpoint, NameConflict, Service } from '../types/types.ts';
import { countPeers, NO_PEERS, type PeerCounts } from '../workloads/peers.ts';

/** The parts of a service that a change affects: all, or those with these tokens, which are reads and IDs of parts. */
export type AffectedParts = 'all' | ReadonlySet<string>;

/** Numbers that the metrics report. */
export interface ServiceFacts {
  readonly instances: number;
  readonly notReady: number;
  readonly pendingPod: number;
  readonly withoutPod: number;
  readonly duplicates: number;
  /** The number of clusters without endpoints, not counting subsets. */
  readonly withoutInstances: number;
}

export interface ServiceRecord {
  readonly service: Service;
  /** By id, in order of precedence. */
  readonly parts: ReadonlyMap<string, EndpointPart>;
  readonly reads: ReadonlySet<string>;
  /** Sorted. */
  readonly endpoints: readonly Endpoint[];
  readonly peers: PeerCounts;
  readonly localities: Counts;
  readonly networks: Counts;
  /** Without the cluster of this program. */
  readonly clusters: Counts;
  readonly facts: ServiceFacts;
  readonly conflicts: readonly NameConflict[];
}

/** The removed and added endpoints; equal endpoints are in neither list. */
export interface EndpointDelta {
  readonly removed: ReadonlySet<Endpoint>;
  readonly added: readonly Endpoint[];
}

export interface RecordStep {
  readonly record: ServiceRecord | undefined;
  readonly delta: EndpointDelta;
  readonly newReads: Iterable<string>;
  readonly goneReads: Iterable<string>;
}

const NO_PARTS: ServiceRecord['parts'] = new Map();
const NO_READS: ReadonlySet<string> = new Set();
const NO_ENDPOINTS: readonly Endpoint[] = [];
const NONE_REMOVED: ReadonlySet<Endpoint> = new Set();

export interface Definers {
  /**
   * The Services of one name in several clusters. The first is in force; the others only contribute addresses and
   * endpoints.
   */
  readonly services: readonly Resource<'Service'>[];
  readonly entries: readonly Resource<'ServiceEntry'>[];
}

export function nextRecord(
  key: string,
  { services, entries }: Definers,
  indexes: EndpointIndexes,
  before: ServiceRecord | undefined,
  affected: AffectedParts,
): RecordStep {
  const reads = new Set<string>();
  const conflicts: NameConflict[] = [];
  const definers: readonly Definer[] = [...services.slice(0, 1), ...entries];
  const definitions = definers.map((definer) => {
    const definition = definitionOf(definer, key, indexes);
    if (definer.kind === 'Service') return definition;
    const addressed = withoutTakenAddresses(definition, indexes, reads);
    const named = withoutTakenHost(addressed.service, indexes, reads);
    conflicts.push(...addressed.conflicts, ...named.conflicts);
    return named.service;
  });
  const merged = mergeDefinitions(definitions);
  const located = merged && withClusterAddresses(merged.service, services, indexes);
  const allocated = located && withAllocatedAddresses(located, indexes, reads);
  if (allocated !== undefined) conflicts.push(...allocated.conflicts);
  const defined = allocated?.service;
  const namespace = merged?.service.namespace ?? '';
  const plans = merged === undefined ? [] : endpointPlans(merged, definers, indexes);
  const { parts, remade } = nextParts(plans, namespace, indexes, before?.parts ?? NO_PARTS, affected);
  const delta = deltaOf(before?.parts ?? NO_PARTS, parts, remade);
  const changedReads = readsChanged(before, parts, reads, remade);
  if (merged === undefined || defined === undefined) return { record: undefined, delta, ...changedReads };
  const endpoints = joined(before?.endpoints ?? NO_ENDPOINTS, delta);
  const service = keepIfEqual(before?.service, defined);
  const record: ServiceRecord = {
    service,
    parts,
    reads,
    endpoints,
    peers: countPeers(before?.peers ?? NO_PEERS, namespace, delta),
    localities: countBy(({ locality }) => locality, before?.localities ?? NO_COUNTS, delta),
    networks: countBy(({ network }) => network, before?.networks ?? NO_COUNTS, delta),
    clusters: countBy(({ cluster }) => cluster, before?.clusters ?? NO_COUNTS, delta),
    facts: factsOf(service, parts, endpoints, merged.duplicates, before?.facts, delta),
    conflicts,
  };
  return { record, delta, ...changedReads };
}

/**
 * The parts for the plans; affected parts are rebuilt. `remade` has the IDs of parts that are new, different or
 * removed.
 */
function nextParts(
  plans: readonly PartPlan[],
  namespace: string,
  indexes: EndpointIndexes,
  before: ServiceRecord['parts'],
  affected: AffectedParts,
): { readonly parts: Map<string, EndpointPart>; readonly remade: ReadonlySet<string> } {
  const parts = new Map<string, EndpointPart>();
  const remade = new Set<string>();
  for (const { id, make } of plans) {
    const known = before.get(id);
    if (known !== undefined && !isConcerned(id, known, affected)) {
      parts.set(id, known);
      continue;
    }
    const collector = new EndpointCollector(namespace, indexes.peerPolicies, known);
    make(collector);
    parts.set(id, collector.result());
    remade.add(id);
  }
  for (const id of before.keys()) if (!parts.has(id)) remade.add(id);
  return { parts, remade };
}

function isConcerned(id: string, { reads }: EndpointPart, affected: AffectedParts): boolean {
  return affected === 'all' || affected.has(id) || !reads.isDisjointFrom(affected);
}

/** The difference between the parts. An equal endpoint that moves to another part stays the same object, in `after`. */
function deltaOf(
  before: ServiceRecord['parts'],
  after: Map<string, EndpointPart>,
  remade: ReadonlySet<string>,
): EndpointDelta {
  if (before.size === 0) return { removed: NONE_REMOVED, added: allInForce(after).sort(compareEndpoints) };
  const touched = new Set<string>();
  for (const id of remade) {
    const [was, is] = [before.get(id)?.endpoints, after.get(id)?.endpoints];
    for (const [identity, endpoint] of was ?? []) if (is?.get(identity) !== endpoint) touched.add(identity);
    for (const identity of is?.keys() ?? []) if (!was?.has(identity)) touched.add(identity);
  }
  const removed = new Set<Endpoint>();
  const added: Endpoint[] = [];
  const copies = new Map<string, Map<string, Endpoint>>();
  for (const identity of touched) {
    const [was, is] = [inForce(before, identity), inForce(after, identity)];
    if (was?.endpoint === is?.endpoint) continue;
    if (was !== undefined && is !== undefined && deepEqual(was.endpoint, is.endpoint)) {
      const copy = copies.get(is.id) ?? new Map(after.get(is.id)?.endpoints);
      copies.set(is.id, copy.set(identity, was.endpoint));
      continue;
    }
    if (was !== undefined) removed.add(was.endpoint);
    if (is !== undefined) added.push(is.endpoint);
  }
  for (const [id, endpoints] of copies) {
    const part = after.get(id);
    if (part !== undefined) after.set(id, { ...part, endpoints });
  }
  return { removed, added: added.sort(compareEndpoints) };
}

/** The endpoints of a service that had none: the case of all services at start. */
function allInForce(parts: ServiceRecord['parts']): Endpoint[] {
  const [only] = parts.values();
  if (parts.size < 2) return [...(only?.endpoints.values() ?? [])];
  const found = new Map<string, Endpoint>();
  for (const { endpoints } of parts.values()) {
    for (const [identity, endpoint] of endpoints) if (!found.has(identity)) found.set(identity, endpoint);
  }
  return [...found.values()];
}

/** If several parts have the same address and port, the first is used. */
function inForce(
  parts: ServiceRecord['parts'],
  identity: string,
): { readonly id: string; readonly endpoint: Endpoint } | undefined {
  for (const [id, { endpoints }] of parts) {
    const endpoint = endpoints.get(identity);
    if (endpoint !== undefined) return { id, endpoint };
  }
  return undefined;
}

function joined(before: readonly Endpoint[], { removed, added }: EndpointDelta): readonly Endpoint[] {
  if (removed.size === 0 && added.length === 0) return before;
  if (before.length === 0) return added;
  const kept = removed.size === 0 ? before : without(before, removed);
  if (added.length === 0) return kept;
  const endpoints: Endpoint[] = [];
  let from = 0;
  for (const endpoint of added) {
    const to = placeOf(kept, endpoint);
    append(endpoints, kept, from, to);
    endpoints.push(endpoint);
    from = to;
  }
  append(endpoints, kept, from, kept.length);
  return endpoints;
}

/** If more than one in this many endpoints is removed, it is cheaper to filter the list. */
const ENDPOINTS_PER_REMOVED = 16;

function without(before: readonly Endpoint[], removed: ReadonlySet<Endpoint>): readonly Endpoint[] {
  if (removed.size * ENDPOINTS_PER_REMOVED > before.length) return before.filter((endpoint) => !removed.has(endpoint));
  const places = [...removed].map((endpoint) => placeOf(before, endpoint)).sort((a, b) => a - b);
  const kept: Endpoint[] = [];
  let from = 0;
  for (const place of places) {
    append(kept, before, from, place);
    from = place + 1;
  }
  append(kept, before, from, before.length);
  return kept;
}

/** The index of an endpoint in a sorted list, or where it would be inserted. */
function placeOf(sorted: readonly Endpoint[], endpoint: Endpoint): number {
  return lowerBound(sorted.length, (index) => {
    const other = sorted[index];
    return other === undefined || compareEndpoints(other, endpoint) >= 0;
  });
}

function append(list: Endpoint[], from: readonly Endpoint[], first: number, end: number): void {
  for (let index = first; index < end; index++) {
    const endpoint = from[index];
    if (endpoint !== undefined) list.push(endpoint);
  }
}

function compareEndpoints(a: Endpoint, b: Endpoint): number {
  return (
    compareText(a.servicePort, b.servicePort) ||
    compareText(a.address, b.address) ||
    a.port - b.port ||
    compareText(a.network, b.network) ||
    compareText(a.cluster ?? '', b.cluster ?? '')
  );
}

function readsChanged(
  before: ServiceRecord | undefined,
  parts: ServiceRecord['parts'],
  reads: ReadonlySet<string>,
  remade: ReadonlySet<string>,
): Pick<RecordStep, 'newReads' | 'goneReads'> {
  if (before === undefined) return { newReads: readsOf(reads, parts), goneReads: [] };
  const newReads = new Set(reads.difference(before.reads));
  const candidates = new Set(before.reads.difference(reads));
  for (const id of remade) {
    const [was, is] = [before.parts.get(id)?.reads ?? NO_READS, parts.get(id)?.reads ?? NO_READS];
    for (const read of is) if (!was.has(read)) newReads.add(read);
    for (const read of was) if (!is.has(read)) candidates.add(read);
  }
  const goneReads = [...candidates].filter((read) => {
    if (newReads.has(read) || reads.has(read)) return false;
    for (const part of parts.values()) if (part.reads.has(read)) return false;
    return true;
  });
  return { newReads, goneReads };
}

function readsOf(own: ReadonlySet<string>, parts: ServiceRecord['parts']): ReadonlySet<string> {
  const all = new Set(own);
  for (const { reads } of parts.values()) for (const read of reads) all.add(read);
  return all;
}

function factsOf(
  service: Service,
  parts: ServiceRecord['parts'],
  endpoints: readonly Endpoint[],
  duplicates: number,
  before: ServiceFacts | undefined,
  { removed, added }: EndpointDelta,
): ServiceFacts {
  let notReady = before?.notReady ?? 0;
  for (const { health } of removed) if (health === 'unhealthy') notReady--;
  for (const { health } of added) if (health === 'unhealthy') notReady++;
  let pendingPod = 0;
  let withoutPod = 0;
  for (const part of parts.values()) {
    pendingPod += part.pendingPod;
    withoutPod += part.withoutPod;
  }
  const withoutInstances = service.resolution === 'eds' ? emptyPorts(service, endpoints).length : 0;
  const instances = endpoints.length;
  return { instances, notReady, pendingPod, withoutPod, duplicates, withoutInstances };
}
