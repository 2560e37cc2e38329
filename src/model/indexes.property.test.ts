/**
 * Indexes do not depend on history: after any changes they equal those of a fresh replay, without remains of deleted
 * resources.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../core/memo.ts';
import { PMap } from '../core/pmap.ts';
import { finish } from '../core/slices.ts';
import * as fc from '../core/testing/properties.ts';
import { type AnyResource, keyOf, type ResourceKey } from '../resources/kinds/types.ts';
import { defaultMeshConfig } from '../resources/mesh-config.ts';
import { kindOfKey } from './common/tables.ts';
import { updateMesh } from './mesh.ts';
import { updateRegistry } from './registry/registry.ts';
import { emptyRegistry, type State } from './registry/state.ts';
import { emptyMesh, type MeshState } from './rules/mesh-state.ts';
import { EMPTY_SCOPE_INDEX, type ScopeIndex, withoutScope } from './scopes/scope-index.ts';
import { MeshScopes, scopeIdOf } from './scopes/scope-source.ts';
import { history, NETWORKS, type Operation, QUESTIONS } from './testing/arbitrary.ts';
import { DEFAULT_SETTINGS } from './testing/settings.ts';
import { isConfigKind } from './types/types.ts';

interface Step {
  readonly registry: State;
  readonly mesh: MeshState;
  readonly scopeIndex: ScopeIndex;
}

function empty(useEndpointSlice: boolean): Step {
  const settings = { ...DEFAULT_SETTINGS, useEndpointSlice };
  const memos = new Memos();
  const registry = emptyRegistry(settings, defaultMeshConfig(), NETWORKS, memos);
  return { registry, mesh: emptyMesh(settings, defaultMeshConfig(), NETWORKS, memos), scopeIndex: EMPTY_SCOPE_INDEX };
}

function next(
  { registry, mesh, scopeIndex }: Step,
  changes: Iterable<readonly [ResourceKey, AnyResource | undefined]>,
): Step {
  const resources = new Map<ResourceKey, AnyResource | undefined>();
  const configs = new Map<ResourceKey, AnyResource | undefined>();
  for (const [key, resource] of changes) (isConfigKind(kindOfKey(key)) ? configs : resources).set(key, resource);
  const { state, derived } = finish(updateRegistry(registry, resources, {}));
  const step = finish(updateMesh(mesh, scopeIndex, { version: mesh.version + 1, ...derived, configs }));
  return { registry: state, mesh: step.state, scopeIndex: step.scopeIndex };
}

const changesOf = (batch: readonly Operation[]) =>
  batch.map(({ resource, remove }) => [keyOf(resource), remove ? undefined : resource] as const);

/** All indexes of a state as plain data, without the rules that are merged on request. */
function indexesOf({ registry, mesh }: Step): object {
  const tables = { ...registry, ...registry.allocatedAddresses, ...mesh, ...mesh.virtualServices };
  const maps = Object.entries(tables).filter(([name, value]) => value instanceof PMap && name !== 'rules');
  const indexes = maps.map(([name, value]) => [name, value instanceof PMap ? value.sorted() : undefined]);
  const rules = mesh.rules.sorted().map(([namespace, groups]) => [namespace, [...groups.keys()].sort()]);
  return { ...Object.fromEntries(indexes), rules };
}

test('indexes after any history equal those of a fresh replay', () => {
  fc.assert(
    fc.property(history, fc.boolean(), (batches, useEndpointSlice) => {
      let state = empty(useEndpointSlice);
      const left = new Map<ResourceKey, AnyResource>();
      for (const [key, resource] of batches.flatMap(changesOf)) {
        if (resource === undefined) left.delete(key);
        else left.set(key, resource);
      }
      for (const batch of batches) state = next(state, changesOf(batch));
      const fresh = next(empty(useEndpointSlice), left);
      assert.deepEqual(indexesOf(state), indexesOf(fresh));
      const bare = next(
        state,
        [...left.keys()].map((key) => [key, undefined] as const),
      );
      assert.deepEqual(indexesOf(bare), indexesOf(empty(useEndpointSlice)));
    }),
    { numRuns: 150 },
  );
});

test('released scopes leave nothing in the index of scopes', () => {
  fc.assert(
    fc.property(history, (batches) => {
      let state = empty(false);
      for (const batch of batches) {
        const scopes = new MeshScopes(state.mesh, state.scopeIndex);
        for (const { namespace, labels } of QUESTIONS.proxies) scopes.keep(scopeIdOf(state.mesh, namespace, labels));
        state = next({ ...state, scopeIndex: scopes.scopeIndex }, changesOf(batch));
      }
      let { scopeIndex } = state;
      for (const id of [...scopeIndex.built.keys(), ...scopeIndex.absent]) scopeIndex = withoutScope(scopeIndex, id);
      const { built, watchers, byNamespace, bySidecar, absent } = scopeIndex;
      assert.deepEqual(
        [built, watchers, byNamespace, bySidecar].map((index) => [...index.keys()]),
        [[], [], [], []],
      );
      assert.equal(absent.size, 0);
    }),
    { numRuns: 60 },
  );
});
