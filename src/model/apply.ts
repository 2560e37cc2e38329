/**
 * From one snapshot to the next: a change of resources goes through the stages, each of which looks only at what the one before
 * found different. Pure and deterministic: the main thread and every worker come to the same snapshot by the same changes.
 */
import { Memos } from '../core/memo.ts';
import { PMap } from '../core/pmap.ts';
import type { MeshConfig, MeshNetworks } from '../resources/mesh-config.ts';
import {
  type AnyResource,
  type Kind,
  keyOf,
  type Resource,
  type ResourceChange,
  type ResourceKey,
} from '../resources/types.ts';
import { updateRules } from './destination-rules.ts';
import { deepEqual } from './equal.ts';
import { membersOf } from './groups.ts';
import { networkFinder } from './networks.ts';
import { compareMeta } from './order.ts';
import { updatePeerPolicies } from './peer-authentication.ts';
import { updateRegistered } from './registered-workloads.ts';
import { EMPTY_BOOK } from './scope-book.ts';
import { forgetScopes, type ScopeInputs, type ScopeResults, updateScopes } from './scope-update.ts';
import type { Dirt } from './service-record.ts';
import { updateServices } from './services.ts';
import { internalsOf, makeSnapshot } from './snapshot.ts';
import { type Changed, emptyState, ofKind, type State, tableOf } from './state.ts';
import { type ChangeSet, CONFIG_KINDS, type ModelSettings, type Snapshot } from './types.ts';
import { updateVirtualServices, virtualServiceConflicts } from './virtual-services.ts';
import { dirtyServices, guardedServices, indexEndpointAddresses, indexWorkloads } from './workload-indexes.ts';
import { updatePolicies } from './workload-policies.ts';
import { ownAddresses } from './workloads.ts';

export interface ModelUpdate {
  /** Several changes of one key are taken in order; what counts as "before" is what the previous snapshot holds. */
  readonly changes: Iterable<ResourceChange>;
  readonly mesh?: MeshConfig;
  readonly networks?: MeshNetworks;
  /** Of the next snapshot; one more than the previous when absent. */
  readonly version?: number;
}

export interface ModelStep {
  readonly snapshot: Snapshot;
  readonly changes: ChangeSet;
}

const READ_KINDS: ReadonlySet<Kind> = new Set<Kind>(CONFIG_KINDS);

export interface ModelOptions {
  /** Where the model and what is generated from it remember results. */
  readonly memos?: Memos;
}

/** The empty snapshot, version 1. */
export function createModel(
  settings: ModelSettings,
  mesh: MeshConfig,
  networks: MeshNetworks,
  { memos = new Memos() }: ModelOptions = {},
): Snapshot {
  return makeSnapshot(emptyState(settings, mesh, networks, memos), EMPTY_BOOK);
}

/** All resources as one change of an empty snapshot: what a worker that lost its replica does. */
export function replay(empty: Snapshot, resources: Iterable<AnyResource>, version?: number): Snapshot {
  const changes = [...resources].map((after): ResourceChange => ({ key: keyOf(after), before: undefined, after }));
  return applyChanges(empty, { changes, ...(version === undefined ? {} : { version }) }).snapshot;
}

/** The next snapshot and what differs in it. Costs what the change costs; whatever is equal stays the same object. */
export function applyChanges(previous: Snapshot, update: ModelUpdate): ModelStep {
  const { state: before, book } = internalsOf(previous);
  const { everything, state: configured } = configure(before, update);
  const { state: stored, changed } = storeResources(configured, update.changes);
  const peerPolicies = updatePeerPolicies(stored, changed);
  const policies = updatePolicies(stored, changed);
  const guarded = { ...stored, peerPolicies: peerPolicies.policies, policies: policies.policies };
  const { registered, namespaces: workloads } = updateRegistered(stored.registered, changed);
  const indexed = indexEndpointAddresses(before, indexWorkloads({ ...guarded, registered }, changed), changed);
  const dirty = everything
    ? new Map([...indexed.definers.keys()].map((key) => [key, 'all' as const]))
    : dirtyServices(before, indexed, changed);
  if (everything) for (const key of dirtyServices(before, indexed, changed).keys()) dirty.set(key, 'all');
  for (const [key, dirt] of guardedServices(before, indexed, peerPolicies.change)) {
    dirty.set(key, joinedDirt(dirty.get(key), dirt));
  }
  const { state: served, changes: serviceChanges } = updateServices(indexed, dirty);
  const { state, inputs } = updateConfiguration(served, changed, everything);
  const counted = { ...state, unservedPods: updateUnserved(state, changed, serviceChanges.addresses) };
  const scopes: ScopeResults = everything
    ? { book: EMPTY_BOOK, changes: forgetScopes(book) }
    : updateScopes(book, counted, {
        ...inputs,
        services: serviceChanges.services,
        publicServices: before.publicServices,
        previousRules: before.rules,
      });
  return {
    snapshot: makeSnapshot(counted, scopes.book),
    changes: {
      fromVersion: before.version,
      toVersion: counted.version,
      everything,
      ...serviceChanges,
      peerAuthentication: peerPolicies.selections,
      policies: policies.change,
      workloads,
      configs: changedConfigs(changed),
      nameConflicts: newConflicts(before, counted),
      scopes: scopes.changes,
    },
  };
}

function joinedDirt(a: Dirt | undefined, b: Dirt): Dirt {
  return a === 'all' || b === 'all' ? 'all' : b.union(a ?? new Set());
}

/** Takes over the mesh configuration and networks when they differ. */
function configure(before: State, { mesh, networks, version }: ModelUpdate): { state: State; everything: boolean } {
  const newMesh = mesh !== undefined && !deepEqual(mesh, before.mesh);
  const newNetworks = networks !== undefined && !deepEqual(networks, before.networks);
  const state: State = {
    ...before,
    version: version ?? before.version + 1,
    ...(newMesh ? { mesh } : {}),
    ...(newNetworks ? { networks, networkOf: networkFinder(networks, before.settings.clusterId) } : {}),
  };
  return { state, everything: newMesh || newNetworks };
}

/** Puts the resources into their tables; says which really differ. */
function storeResources(state: State, changes: Iterable<ResourceChange>): { state: State; changed: Changed[] } {
  const latest = new Map<ResourceKey, AnyResource | undefined>();
  for (const { key, after } of changes) latest.set(key, after);
  const changed: Changed[] = [];
  const edits = new Map<Kind, [ResourceKey, AnyResource | undefined][]>();
  for (const [key, after] of latest) {
    const kind = kindOfKey(state, key);
    if (kind === undefined) continue;
    const before = state.resources[kind].get(key);
    if (before === undefined && after === undefined) continue;
    const list = edits.get(kind);
    if (list === undefined) edits.set(kind, [[key, after]]);
    else list.push([key, after]);
    if (before?.fingerprint !== after?.fingerprint) changed.push({ key, before, after });
  }
  const resources = { ...state.resources };
  for (const [kind, list] of edits) resources[kind] = resources[kind].with(list);
  return { state: { ...state, resources }, changed };
}

function kindOfKey(state: State, key: ResourceKey): Kind | undefined {
  const kind = key.slice(0, key.indexOf('/'));
  return Object.hasOwn(state.resources, kind) ? (kind as Kind) : undefined;
}

/** Virtual services, destination rules, Sidecars and Gateways. */
function updateConfiguration(
  state: State,
  changed: readonly Changed[],
  everything: boolean,
): { state: State; inputs: Pick<ScopeInputs, 'virtualServices' | 'rules' | 'sidecars'> } {
  const virtual = updateVirtualServices(
    state.virtualServices,
    changedOf(state, changed, 'VirtualService', everything),
    state,
  );
  const known = everything ? PMap.empty<never>() : state.rules;
  const ruleChanges = sidesOf(state, changed, 'DestinationRule', everything);
  const rules = updateRules(known, ruleChanges, state);
  const duplicateSubsets = (everything ? 0 : state.totals.duplicateSubsets) + rules.duplicateSubsets;
  const sidecars = changedOf(state, changed, 'Sidecar', false);
  const gateways = changed.some(({ before, after }) => (after ?? before)?.kind === 'Gateway');
  return {
    state: {
      ...state,
      virtualServices: virtual.tables,
      rules: rules.table,
      totals: { ...state.totals, duplicateSubsets },
      nameConflicts: state.nameConflicts.with(
        [...virtual.changes].map(([key, { after }]) => {
          const conflicts = virtualServiceConflicts(after);
          return [key, conflicts.length === 0 ? undefined : conflicts] as const;
        }),
      ),
      sidecars: updateSidecars(state, changed),
      gateways: gateways
        ? [...tableOf(state.resources, 'Gateway').values()].sort((a, b) => compareMeta(a.meta, b.meta))
        : state.gateways,
    },
    inputs: { virtualServices: virtual.changes, rules: rules.changes, sidecars },
  };
}

/** Resources of a kind as they are now (undefined: gone): those changed, or with `everything` all. */
function changedOf<K extends Kind>(
  state: State,
  changed: readonly Changed[],
  kind: K,
  everything: boolean,
): Map<ResourceKey, Resource<K> | undefined> {
  const now = new Map([...sidesOf(state, changed, kind, everything)].map(([key, { after }]) => [key, after] as const));
  return now;
}

function sidesOf<K extends Kind>(state: State, changed: readonly Changed[], kind: K, everything: boolean) {
  const sides = new Map<ResourceKey, { before: Resource<K> | undefined; after: Resource<K> | undefined }>();
  for (const { key, before, after } of changed) {
    if ((after ?? before)?.kind === kind) sides.set(key, { before: ofKind(before, kind), after: ofKind(after, kind) });
  }
  if (!everything) return sides;
  for (const [key, after] of tableOf(state.resources, kind).entries()) {
    if (!sides.has(key)) sides.set(key, { before: after, after });
  }
  return sides;
}

function updateSidecars(state: State, changed: readonly Changed[]): State['sidecars'] {
  const namespaces = new Set<string>();
  for (const { before, after } of changed) {
    const sidecar = after ?? before;
    if (sidecar?.kind === 'Sidecar') namespaces.add(sidecar.meta.namespace);
  }
  if (namespaces.size === 0) return state.sidecars;
  const lists = new Map<string, Map<ResourceKey, Resource<'Sidecar'>>>();
  for (const namespace of namespaces) {
    lists.set(namespace, new Map((state.sidecars.get(namespace) ?? []).map((sidecar) => [keyOf(sidecar), sidecar])));
  }
  for (const { key, before, after } of changed) {
    const list = lists.get((after ?? before)?.meta.namespace ?? '');
    const sidecar = ofKind(after, 'Sidecar');
    if (sidecar !== undefined) list?.set(key, sidecar);
    else list?.delete(key);
  }
  return state.sidecars.with(
    [...lists].map(([namespace, list]) => {
      const sorted = [...list.values()].sort((a, b) => compareMeta(a.meta, b.meta));
      return [namespace, sorted.length === 0 ? undefined : sorted] as const;
    }),
  );
}

/** Pods with an address of their own at which nothing is served, after pods and addresses changed. */
function updateUnserved(
  state: State,
  changed: readonly Changed[],
  addresses: ReadonlySet<string>,
): State['unservedPods'] {
  const pods = new Set<ResourceKey>();
  for (const { key, before, after } of changed) if ((after ?? before)?.kind === 'Pod') pods.add(key);
  for (const address of addresses) for (const key of membersOf(state.podsByIp, address)) pods.add(key);
  const table = tableOf(state.resources, 'Pod');
  return state.unservedPods.with(
    [...pods].map((key) => {
      const pod = table.get(key);
      const own = pod === undefined ? [] : ownAddresses(pod);
      const unserved = own.length > 0 && !own.some((address) => state.instances.has(address));
      return [key, unserved ? true : undefined] as const;
    }),
  );
}

function newConflicts(before: State, after: State): ChangeSet['nameConflicts'] {
  return after.nameConflicts.changedKeys(before.nameConflicts).flatMap((name) => {
    const known = new Set(before.nameConflicts.get(name)?.map(({ message }) => message));
    return (after.nameConflicts.get(name) ?? []).filter(({ message }) => !known.has(message));
  });
}

/** Of the configuration that generation reads directly: what differs in what it reads. */
function changedConfigs(changed: readonly Changed[]): ChangeSet['configs'] {
  const configs = new Map<ResourceKey, { before: AnyResource | undefined; after: AnyResource | undefined }>();
  for (const { key, before, after } of changed) {
    const kind = (after ?? before)?.kind;
    if (kind === undefined || !READ_KINDS.has(kind)) continue;
    if (!deepEqual(readPart(before), readPart(after))) configs.set(key, { before, after });
  }
  return configs;
}

/** Names are in the key; labels are read of namespaces alone, annotations of none. */
function readPart(resource: AnyResource | undefined): unknown {
  if (resource === undefined) return undefined;
  const { content, meta } = resource;
  return resource.kind === 'Namespace' ? { labels: meta.labels } : { content, created: meta.created };
}
