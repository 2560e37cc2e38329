/**
 * The mesh stage, which runs on the main thread and in every worker: computes what generation reads from the results of
 * the registry stage and the configuration. Pure and deterministic: equal changes result in equal states, however they
 * are merged.
 */
import { PMap } from '../core/pmap.ts';
import type { Slices } from '../core/slices.ts';
import { keyOf, type Resource, type ResourceChange, type ResourceKey } from '../resources/index.ts';
import { deepEqual } from './common/equal.ts';
import { compareMeta } from './common/order.ts';
import { ofKind, storeResources, tableOf } from './common/tables.ts';
import { indexHosts, withHostConflicts } from './host-index.ts';
import type { ServiceChange } from './registry/services.ts';
import { changedConfigs } from './rules/configs.ts';
import { newConflicts } from './rules/conflicts.ts';
import { updateRules } from './rules/destination-rules.ts';
import type { MeshState } from './rules/mesh-state.ts';
import {
  unusedDelegates,
  updateVirtualServices,
  type VirtualServiceEntry,
  virtualServiceConflicts,
} from './rules/virtual-services.ts';
import type { ScopeIndex } from './scopes/scope-index.ts';
import { rebuildScopes, type ScopeInputs, type ScopeResults, updateScopes } from './scopes/scope-update.ts';
import type { ChangeSet, ConfigKind, MeshDelta, ServiceKey } from './types/types.ts';

type MeshChanges = Pick<
  ChangeSet,
  'fromVersion' | 'toVersion' | 'everything' | 'services' | 'configs' | 'nameConflicts' | 'scopes' | 'workloadRanges'
>;

interface MeshStep {
  readonly state: MeshState;
  readonly scopeIndex: ScopeIndex;
  readonly changes: MeshChanges;
}

/**
 * The next state, its scopes, and the differences. The cost follows the size of the change; equal values stay the same
 * objects.
 */
export function* updateMesh(before: MeshState, scopeIndex: ScopeIndex, delta: MeshDelta): Slices<MeshStep> {
  const { version, mesh = before.mesh, networks = before.networks, workloadRanges = before.workloadRanges } = delta;
  const { networkGateways = before.networkGateways } = delta;
  const everything = mesh !== before.mesh || networks !== before.networks;
  const { tables, changed } = storeResources(before.configs, delta.configs);
  yield;
  const services = yield* changedServices(before, delta.services);
  const merged = {
    ...before,
    version,
    mesh,
    networks,
    workloadRanges,
    networkGateways,
    configs: tables,
    services: before.services.with([...services].map(([key, { after }]) => [key, after])),
    peers: before.peers.with(delta.peers),
    carriedEndpoints: before.carriedEndpoints.with(delta.endpoints),
  };
  yield;
  const indexed = yield* indexHosts(merged, services);
  const claimed = everything ? withHostConflicts(indexed) : indexed;
  yield;
  const { state, inputs } = yield* updateConfiguration(claimed, changed, everything);
  yield;
  const scopes: ScopeResults = everything
    ? rebuildScopes(scopeIndex, state)
    : yield* updateScopes(scopeIndex, state, {
        ...inputs,
        services,
        publicServices: before.publicServices,
        previousRules: before.rules,
      });
  yield;
  return {
    state,
    scopeIndex: scopes.scopeIndex,
    changes: {
      fromVersion: before.version,
      toVersion: version,
      everything,
      services,
      configs: changedConfigs(changed),
      nameConflicts: newConflicts(before, state),
      scopes: scopes.changes,
      workloadRanges: workloadRanges !== before.workloadRanges,
    },
  };
}

/** Merged deltas may set a service to its current value. */
function* changedServices(before: MeshState, services: MeshDelta['services']): Slices<Map<ServiceKey, ServiceChange>> {
  const changed = new Map<ServiceKey, ServiceChange>();
  for (const [key, after] of services) {
    const known = before.services.get(key);
    if (!deepEqual(known, after)) changed.set(key, { before: known, after });
    yield;
  }
  return changed;
}

/** Virtual services, destination rules, Sidecars and Gateways. */
function* updateConfiguration(
  state: MeshState,
  changed: readonly ResourceChange[],
  everything: boolean,
): Slices<{ state: MeshState; inputs: Pick<ScopeInputs, 'virtualServices' | 'rules' | 'sidecars'> }> {
  const routes = changedOf(state, changed, 'VirtualService', everything);
  const virtual = yield* updateVirtualServices(state.virtualServices, routes, state);
  yield;
  const named = [...virtual.changes.values()].flatMap(({ before, after }) => [before, after].flatMap(delegatesOf));
  const unused = unusedDelegates(virtual.tables, [...routes.keys(), ...named], state);
  const known = everything ? PMap.empty<never>() : state.rules;
  const ruleChanges = sidesOf(state, changed, 'DestinationRule', everything);
  const rules = updateRules(known, ruleChanges, state);
  yield;
  const duplicateSubsets = (everything ? 0 : state.duplicateSubsets) + rules.duplicateSubsets;
  const sidecars = changedOf(state, changed, 'Sidecar', false);
  const gateways = changed.some(({ before, after }) => (after ?? before)?.kind === 'Gateway');
  return {
    state: {
      ...state,
      virtualServices: virtual.tables,
      rules: rules.table,
      duplicateSubsets,
      nameConflicts: state.nameConflicts.with([
        ...unused,
        ...[...virtual.changes].map(([key, { after }]) => {
          const conflicts = virtualServiceConflicts(after);
          return [key, conflicts.length === 0 ? unused.get(key) : conflicts] as const;
        }),
      ]),
      sidecars: updateSidecars(state, changed),
      gateways: gateways
        ? [...tableOf(state.configs, 'Gateway').values()].sort((a, b) => compareMeta(a.meta, b.meta))
        : state.gateways,
    },
    inputs: { virtualServices: virtual.changes, rules: rules.changes, sidecars },
  };
}

function delegatesOf(entry: VirtualServiceEntry | undefined): readonly ResourceKey[] {
  return entry?.delegates ?? [];
}

/** The new resources of a kind (undefined if deleted): the changed ones, or all with `everything`. */
function changedOf<K extends ConfigKind>(
  state: MeshState,
  changed: readonly ResourceChange[],
  kind: K,
  everything: boolean,
): Map<ResourceKey, Resource<K> | undefined> {
  const now = new Map([...sidesOf(state, changed, kind, everything)].map(([key, { after }]) => [key, after] as const));
  return now;
}

function sidesOf<K extends ConfigKind>(
  state: MeshState,
  changed: readonly ResourceChange[],
  kind: K,
  everything: boolean,
) {
  const sides = new Map<ResourceKey, { before: Resource<K> | undefined; after: Resource<K> | undefined }>();
  for (const { key, before, after } of changed) {
    if ((after ?? before)?.kind === kind) sides.set(key, { before: ofKind(before, kind), after: ofKind(after, kind) });
  }
  if (!everything) return sides;
  for (const [key, after] of tableOf(state.configs, kind).entries()) {
    if (!sides.has(key)) sides.set(key, { before: after, after });
  }
  return sides;
}

function updateSidecars(state: MeshState, changed: readonly ResourceChange[]): MeshState['sidecars'] {
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
