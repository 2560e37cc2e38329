/**
 * Recomputes the services and endpoints whose reads changed, keeps those that are equal, and updates the indexes with
 * the differences.
 */
import type { Slices } from '../../core/slices.ts';
import { nextAddressClusters } from '../addresses/cluster-addresses.ts';
import { type Counts, NO_COUNTS, nextNames } from '../common/counts.ts';
import { deepEqual } from '../common/equal.ts';
import { GroupEdits, membersOf } from '../common/groups.ts';
import { tableOf } from '../common/tables.ts';
import type { EndpointIndexes } from '../endpoints/endpoints.ts';
import type { ChangeSet, NameConflict, ServiceKey, ServicePeers } from '../types/types.ts';
import { nextLocalityNames } from '../workloads/localities.ts';
import { nextNetworkNames } from '../workloads/network-names.ts';
import { peersOf } from '../workloads/peers.ts';
import { updateInstances } from './instances.ts';
import {
  type AffectedParts,
  type Definers,
  type EndpointDelta,
  nextRecord,
  type ServiceRecord,
} from './service-record.ts';
import type { State, Totals } from './state.ts';

export type ServiceChange = ChangeSet['services'] extends ReadonlyMap<ServiceKey, infer Change> ? Change : never;

export interface ServiceChanges {
  readonly services: ReadonlyMap<ServiceKey, ServiceChange>;
  readonly endpoints: ReadonlySet<ServiceKey>;
  readonly peers: ReadonlyMap<ServiceKey, ServicePeers | undefined>;
  readonly addresses: ReadonlySet<string>;
}

export function* updateServices(
  state: State,
  dirty: ReadonlyMap<ServiceKey, AffectedParts>,
): Slices<{ state: State; changes: ServiceChanges }> {
  const indexes: EndpointIndexes = { ...state, resources: (kind) => tableOf(state.resources, kind) };
  const services = new Map<ServiceKey, ServiceChange>();
  const endpoints = new Map<ServiceKey, EndpointDelta>();
  const peers = new Map<ServiceKey, ServicePeers | undefined>();
  const records = new Map<ServiceKey, ServiceRecord | undefined>();
  const readers = new GroupEdits();
  const conflicts = new Map<string, readonly NameConflict[] | undefined>();
  for (const [key, affected] of dirty) {
    const known = state.records.get(key);
    const { record, delta, newReads, goneReads } = nextRecord(key, definersOf(state, key), indexes, known, affected);
    records.set(key, record);
    conflicts.set(`address:${key}`, record?.conflicts.length ? record.conflicts : undefined);
    if (known?.service !== record?.service) services.set(key, { before: known?.service, after: record?.service });
    if (delta.removed.size > 0 || delta.added.length > 0) endpoints.set(key, delta);
    if (known?.peers !== record?.peers) {
      const found = record && peersOf(record.peers);
      if (!deepEqual(state.peers.get(key), found)) peers.set(key, found);
    }
    for (const read of goneReads) readers.remove(read, key);
    for (const read of newReads) readers.add(read, key);
    yield;
  }
  const moves = (counts: RecordCounts) => movesOf(counts, state, records);
  const tables = {
    nameConflicts: state.nameConflicts.with(conflicts),
    services: state.services.with([...services].map(([key, { after }]) => [key, after])),
    endpoints: state.endpoints.with(
      [...endpoints.keys()].map((key) => {
        const list = records.get(key)?.endpoints;
        return [key, list?.length ? list : undefined] as const;
      }),
    ),
  };
  yield;
  const recorded = { peers: state.peers.with(peers), records: state.records.with(records) };
  yield;
  const indexed = { ...tables, ...recorded, readers: readers.apply(state.readers) };
  yield;
  const next: State = {
    ...state,
    ...indexed,
    totals: nextTotals(state, records),
    addressClusters: nextAddressClusters(state.addressClusters, services.values()),
    endpointClusters: nextNames(state.endpointClusters, moves('clusters')),
    localities: nextLocalityNames(state.localities, moves('localities')),
    networkNames: nextNetworkNames(state.networkNames, state.networks, moves('networks')),
  };
  yield;
  const { instances, addresses } = updateInstances(state, next, services, endpoints);
  return {
    state: { ...next, instances },
    changes: { services, endpoints: new Set(endpoints.keys()), peers, addresses },
  };
}

function definersOf(state: State, key: ServiceKey): Definers {
  const table = tableOf(state.resources, 'Service');
  const entries = tableOf(state.resources, 'ServiceEntry');
  const sources = membersOf(state.definers, key);
  // Keys of the program's own cluster have no cluster suffix and therefore come first.
  const services = sources.flatMap((source) => table.get(source) ?? []);
  return { services, entries: sources.flatMap((source) => entries.get(source) ?? []) };
}

type RecordCounts = 'localities' | 'networks' | 'clusters';

function* movesOf(
  counts: RecordCounts,
  state: State,
  records: ReadonlyMap<ServiceKey, ServiceRecord | undefined>,
): Generator<{ readonly before: Counts; readonly after: Counts }> {
  for (const [key, record] of records) {
    yield { before: state.records.get(key)?.[counts] ?? NO_COUNTS, after: record?.[counts] ?? NO_COUNTS };
  }
}

function nextTotals(state: State, records: ReadonlyMap<ServiceKey, ServiceRecord | undefined>): Totals {
  let { instances, duplicateClusters, notReady, pendingPod, withoutPod, withoutInstances } = state.totals;
  for (const [key, record] of records) {
    const [before, after] = [state.records.get(key)?.facts, record?.facts];
    instances += (after?.instances ?? 0) - (before?.instances ?? 0);
    duplicateClusters += (after?.duplicates ?? 0) - (before?.duplicates ?? 0);
    notReady += (after?.notReady ?? 0) - (before?.notReady ?? 0);
    pendingPod += (after?.pendingPod ?? 0) - (before?.pendingPod ?? 0);
    withoutPod += (after?.withoutPod ?? 0) - (before?.withoutPod ?? 0);
    withoutInstances += (after?.withoutInstances ?? 0) - (before?.withoutInstances ?? 0);
  }
  return { ...state.totals, instances, duplicateClusters, notReady, pendingPod, withoutPod, withoutInstances };
}
