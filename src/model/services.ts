/**
 * The second stage of a change: services and their endpoints are computed again where something that they read changed, compared
 * with what they were, and kept when equal; then the indexes over them follow the differences.
 */
import type { Resource } from '../resources/types.ts';
import type { EndpointIndexes } from './endpoints.ts';
import { deepEqual } from './equal.ts';
import { GroupEdits, membersOf } from './groups.ts';
import { isWildcardHost } from './hosts.ts';
import { updateInstances } from './instances.ts';
import { compareCreated, compareText } from './order.ts';
import { hostConflicts, servicesInForce } from './ownership.ts';
import { peersOf } from './peers.ts';
import { NO_LOCALITIES, nextPlaces } from './places.ts';
import { type Dirt, type EndpointDelta, nextRecord, type ServiceRecord } from './service-record.ts';
import { carriesEndpoints, type State, type Totals, tableOf } from './state.ts';
import type { ChangeSet, NameConflict, Service, ServiceKey, ServicePeers } from './types.ts';
import { isPublic } from './visibility.ts';

export type ServiceChange = ChangeSet['services'] extends ReadonlyMap<ServiceKey, infer Change> ? Change : never;

export interface ServiceChanges {
  readonly services: ReadonlyMap<ServiceKey, ServiceChange>;
  readonly endpoints: ReadonlySet<ServiceKey>;
  readonly peers: ReadonlySet<ServiceKey>;
  readonly addresses: ReadonlySet<string>;
}

export function updateServices(
  state: State,
  dirty: ReadonlyMap<ServiceKey, Dirt>,
): { state: State; changes: ServiceChanges } {
  const indexes: EndpointIndexes = { ...state, resources: (kind) => tableOf(state.resources, kind) };
  const services = new Map<ServiceKey, ServiceChange>();
  const endpoints = new Map<ServiceKey, EndpointDelta>();
  const peers = new Map<ServiceKey, ServicePeers | undefined>();
  const records = new Map<ServiceKey, ServiceRecord | undefined>();
  const readers = new GroupEdits();
  const conflicts = new Map<string, readonly NameConflict[] | undefined>();
  for (const [key, dirt] of dirty) {
    const known = state.records.get(key);
    const { record, delta, newReads, goneReads } = nextRecord(key, definersOf(state, key), indexes, known, dirt);
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
  }
  const next: State = {
    ...indexHosts({ ...state, nameConflicts: state.nameConflicts.with(conflicts) }, services),
    services: state.services.with([...services].map(([key, { after }]) => [key, after])),
    endpoints: state.endpoints.with(
      [...endpoints.keys()].map((key) => {
        const list = records.get(key)?.endpoints;
        return [key, list?.length ? list : undefined] as const;
      }),
    ),
    carriedEndpoints: state.carriedEndpoints.with(
      [...new Set([...services.keys(), ...endpoints.keys()])].map((key) => {
        const { service, endpoints: list } = records.get(key) ?? {};
        const carried = service !== undefined && carriesEndpoints(service, state.settings);
        return [key, carried && list?.length ? list : undefined] as const;
      }),
    ),
    peers: state.peers.with(peers),
    records: state.records.with(records),
    readers: readers.apply(state.readers),
    totals: nextTotals(state, records),
    places: nextPlaces(
      state.places,
      [...records].map(([key, record]) => ({
        before: state.records.get(key)?.localities ?? NO_LOCALITIES,
        after: record?.localities ?? NO_LOCALITIES,
      })),
    ),
  };
  const { instances, addresses } = updateInstances(state, next, services, endpoints);
  return {
    state: { ...next, instances },
    changes: { services, endpoints: new Set(endpoints.keys()), peers: new Set(peers.keys()), addresses },
  };
}

function definersOf(state: State, key: ServiceKey): (Resource<'Service'> | Resource<'ServiceEntry'>)[] {
  const services = tableOf(state.resources, 'Service');
  const entries = tableOf(state.resources, 'ServiceEntry');
  return membersOf(state.definers, key).flatMap((source) => services.get(source) ?? entries.get(source) ?? []);
}

function nextTotals(state: State, records: ReadonlyMap<ServiceKey, ServiceRecord | undefined>): Totals {
  let { duplicateClusters, notReady, pendingPod, withoutPod, withoutInstances } = state.totals;
  for (const [key, record] of records) {
    const [before, after] = [state.records.get(key)?.facts, record?.facts];
    duplicateClusters += (after?.duplicates ?? 0) - (before?.duplicates ?? 0);
    notReady += (after?.notReady ?? 0) - (before?.notReady ?? 0);
    pendingPod += (after?.pendingPod ?? 0) - (before?.pendingPod ?? 0);
    withoutPod += (after?.withoutPod ?? 0) - (before?.withoutPod ?? 0);
    withoutInstances += (after?.withoutInstances ?? 0) - (before?.withoutInstances ?? 0);
  }
  return { ...state.totals, duplicateClusters, notReady, pendingPod, withoutPod, withoutInstances };
}

/** The orchestrator's first, then oldest first, then by namespace. */
function compareServices(a: Service, b: Service): number {
  if (a.registry !== b.registry) return a.registry === 'Orchestrator' ? -1 : 1;
  return compareCreated(a.created, b.created) || compareText(a.namespace, b.namespace);
}

/** Indexes by host name and namespace, after the services in `changes`. */
function indexHosts(state: State, changes: ReadonlyMap<ServiceKey, ServiceChange>): State {
  if (changes.size === 0) return state;
  const hosts = new Map<string, Map<ServiceKey, Service>>();
  const hostsByNamespace = new GroupEdits();
  const hostsExportedTo = new GroupEdits();
  const wildcardHosts = new GroupEdits();
  for (const [key, { before, after }] of changes) {
    const service = after ?? before;
    if (service === undefined) continue;
    const { hostname, namespace } = service;
    let all = hosts.get(hostname);
    if (all === undefined) {
      all = new Map((state.claimants.get(hostname) ?? []).map((known) => [known.key, known]));
      hosts.set(hostname, all);
    }
    if (after === undefined) {
      all.delete(key);
      hostsByNamespace.remove(namespace, hostname);
    } else {
      all.set(key, after);
      hostsByNamespace.add(namespace, hostname);
    }
  }
  const byHost: [string, readonly Service[] | undefined][] = [];
  const publicHosts: [string, Service | undefined][] = [];
  const claimants: [string, readonly Service[] | undefined][] = [];
  const conflicts: [string, readonly NameConflict[] | undefined][] = [];
  for (const [hostname, claims] of hosts) {
    const all = [...claims.values()].sort(compareServices);
    claimants.push([hostname, all.length === 0 ? undefined : all]);
    const lost = hostConflicts(all, state.settings);
    conflicts.push([`host:${hostname}`, lost.length === 0 ? undefined : lost]);
    const list = servicesInForce(all);
    byHost.push([hostname, list.length === 0 ? undefined : list]);
    publicHosts.push([hostname, list.find(({ exportTo }) => isPublic(exportTo))]);
    hostsExportedTo.move(hostname, namedNamespaces(state.servicesByHost.get(hostname)), namedNamespaces(list));
    if (isWildcardHost(hostname)) wildcardHosts.move(hostname, [''], list.length === 0 ? [] : ['']);
  }
  return {
    ...state,
    claimants: state.claimants.with(claimants),
    nameConflicts: state.nameConflicts.with(conflicts),
    servicesByHost: state.servicesByHost.with(byHost),
    publicServices: state.publicServices.with(publicHosts),
    hostsByNamespace: hostsByNamespace.apply(state.hostsByNamespace),
    hostsExportedTo: hostsExportedTo.apply(state.hostsExportedTo),
    wildcardHosts: wildcardHosts.apply(state.wildcardHosts),
  };
}

/** Namespaces that `exportTo` names. */
function namedNamespaces(services: readonly Service[] | undefined): string[] {
  const names = (services ?? []).flatMap(({ exportTo }) => exportTo);
  return [...new Set(names)].filter((name) => name !== '*' && name !== '.' && name !== '~');
}
