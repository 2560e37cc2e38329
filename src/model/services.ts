/**
 * The second stage of a change: services and their endpoints are computed again where something that they read changed, compared
 * with what they were, and kept when equal; then the indexes over them follow the differences.
 */
import type { Resource } from '../resources/types.ts';
import { type EndpointIndexes, serviceAndEndpoints } from './endpoints.ts';
import { deepEqual, keepIfEqual } from './equal.ts';
import { GroupEdits, membersOf } from './groups.ts';
import { isWildcardHost } from './hosts.ts';
import { updateInstances } from './instances.ts';
import { compareCreated, compareText } from './order.ts';
import { hostConflicts, servicesInForce } from './ownership.ts';
import { peersOf } from './peers.ts';
import { localitiesOf, nextPlaces } from './places.ts';
import { type ServiceFacts, type State, type Totals, tableOf } from './state.ts';
import type { ChangeSet, Endpoint, NameConflict, Service, ServiceKey, ServicePeers } from './types.ts';
import { isPublic } from './visibility.ts';

export type ServiceChange = ChangeSet['services'] extends ReadonlyMap<ServiceKey, infer Change> ? Change : never;

export interface ServiceChanges {
  readonly services: ReadonlyMap<ServiceKey, ServiceChange>;
  readonly endpoints: ReadonlySet<ServiceKey>;
  readonly peers: ReadonlySet<ServiceKey>;
  readonly addresses: ReadonlySet<string>;
}

const NO_ENDPOINTS: readonly Endpoint[] = [];
const NO_LOCALITIES: readonly string[] = [];

export function updateServices(
  state: State,
  dirty: ReadonlySet<ServiceKey>,
): { state: State; changes: ServiceChanges } {
  const indexes: EndpointIndexes = { ...state, resources: (kind) => tableOf(state.resources, kind) };
  const services = new Map<ServiceKey, ServiceChange>();
  const endpoints = new Map<ServiceKey, readonly Endpoint[] | undefined>();
  const peers = new Map<ServiceKey, ServicePeers | undefined>();
  const facts = new Map<ServiceKey, ServiceFacts | undefined>();
  const readers = new GroupEdits();
  const conflicts = new Map<string, readonly NameConflict[] | undefined>();
  for (const key of dirty) {
    const made = serviceAndEndpoints(key, definersOf(state, key), indexes);
    conflicts.set(`address:${key}`, made?.conflicts.length ? made.conflicts : undefined);
    const before = state.services.get(key);
    const after = made === undefined ? undefined : keepIfEqual(before, made.service);
    if (before !== after) services.set(key, { before, after });

    const had = state.endpoints.get(key);
    const has = keepEndpoints(had, made?.endpoints ?? NO_ENDPOINTS);
    if (had !== has) endpoints.set(key, has);
    if (had !== has || before?.namespace !== after?.namespace) {
      const known = state.peers.get(key);
      const found = after === undefined ? undefined : peersOf(after, has ?? NO_ENDPOINTS);
      if (!deepEqual(known, found)) peers.set(key, found);
    }

    const fact = made === undefined ? undefined : factsOf(made);
    const known = state.facts.get(key);
    if (deepEqual(known, fact)) continue;
    facts.set(key, fact);
    for (const read of known?.reads ?? []) readers.remove(read, key);
    for (const read of fact?.reads ?? []) readers.add(read, key);
  }
  const next: State = {
    ...indexHosts({ ...state, nameConflicts: state.nameConflicts.with(conflicts) }, services),
    services: state.services.with([...services].map(([key, { after }]) => [key, after])),
    endpoints: state.endpoints.with(endpoints),
    peers: state.peers.with(peers),
    facts: state.facts.with(facts),
    readers: readers.apply(state.readers),
    totals: nextTotals(state, facts),
    places: nextPlaces(
      state.places,
      [...facts].map(([key, after]) => ({
        before: state.facts.get(key)?.localities ?? NO_LOCALITIES,
        after: after?.localities ?? NO_LOCALITIES,
      })),
    ),
  };
  const { instances, addresses } = updateInstances(state, next, services, new Set(endpoints.keys()));
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

/** The old list when it is equal, else a list that keeps each equal endpoint; undefined for none. */
function keepEndpoints(
  before: readonly Endpoint[] | undefined,
  after: readonly Endpoint[],
): readonly Endpoint[] | undefined {
  if (after.length === 0) return undefined;
  if (before === undefined) return after;
  const known = new Map(before.map((endpoint) => [endpointIdentity(endpoint), endpoint]));
  const kept = after.map((endpoint) => keepIfEqual(known.get(endpointIdentity(endpoint)), endpoint));
  return kept.length === before.length && kept.every((endpoint, i) => endpoint === before[i]) ? before : kept;
}

function endpointIdentity({ servicePort, address, port }: Endpoint): string {
  return `${servicePort}\n${address}\n${port}`;
}

type Made = NonNullable<ReturnType<typeof serviceAndEndpoints>>;

function factsOf({ service, endpoints, facts, duplicates }: Made): ServiceFacts {
  const withoutInstances = service.resolution === 'eds' && endpoints.length === 0 ? 1 : 0;
  return { ...facts, duplicates, withoutInstances, localities: localitiesOf(endpoints) };
}

function nextTotals(state: State, facts: ReadonlyMap<ServiceKey, ServiceFacts | undefined>): Totals {
  let { duplicateClusters, notReady, pendingPod, withoutPod, withoutInstances } = state.totals;
  for (const [key, after] of facts) {
    const before = state.facts.get(key);
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
