/** Properties of the model for every mesh and every order of events. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../core/testing/properties.ts';
import { type AnyResource, keyOf, type ResourceChange } from '../resources/kinds/types.ts';
import { defaultMeshConfig } from '../resources/mesh-config.ts';
import { deepEqual } from './common/equal.ts';
import { history, NETWORKS, type Operation, OTHER_NETWORKS, QUESTIONS } from './testing/arbitrary.ts';
import { emptyMesh } from './testing/build.ts';
import { dumpScope, dumpSnapshot } from './testing/dump.ts';
import { applyChanges, modelOf, replay } from './testing/steps.ts';
import type { ChangeSet, Scope, Snapshot } from './types/types.ts';

function changesOf(batch: readonly Operation[]): ResourceChange[] {
  return batch.map(({ resource, remove }) => ({
    key: keyOf(resource),
    before: undefined,
    after: remove ? undefined : resource,
  }));
}

/** The resources that exist after all batches. */
function finalResources(batches: readonly (readonly Operation[])[]): AnyResource[] {
  const left = new Map<string, AnyResource>();
  for (const { resource, remove } of batches.flat()) {
    if (remove) left.delete(keyOf(resource));
    else left.set(keyOf(resource), resource);
  }
  return [...left.values()];
}

const ids = (snapshot: Snapshot) => [
  ...new Set(
    QUESTIONS.proxies.flatMap(({ namespace, labels }) => [
      snapshot.scopeOf(namespace, labels).id,
      snapshot.gatewayScope(namespace).id,
    ]),
  ),
];

test('any history in any batches ends in the snapshot that a fresh replay makes', () => {
  const settled = { networks: NETWORKS, mesh: defaultMeshConfig() };
  const other = {
    networks: OTHER_NETWORKS,
    mesh: { ...defaultMeshConfig(), defaultServiceExportTo: ['.'], trustedConfigNamespaces: ['b'] },
  };
  const configurations = fc.infiniteStream(
    fc.oneof({ weight: 9, arbitrary: fc.constant(settled) }, { weight: 1, arbitrary: fc.constant(other) }),
  );
  fc.assert(
    fc.property(history, fc.boolean(), configurations, (batches, useEndpointSlice, stream) => {
      const settings = { useEndpointSlice };
      let snapshot = emptyMesh({ settings, ...settled });
      let configuration = settled;
      for (const batch of batches) {
        ids(snapshot);
        configuration = stream.next().value;
        snapshot = applyChanges(snapshot, { changes: changesOf(batch), ...configuration }).snapshot;
      }
      const fresh = replay(emptyMesh({ settings, ...configuration }), finalResources(batches));
      assert.deepEqual(dumpSnapshot(snapshot, QUESTIONS), dumpSnapshot(fresh, QUESTIONS));
    }),
    { numRuns: 150 },
  );
});

test('scopes that are released and acquired again equal those that were kept', () => {
  const releases = fc.array(fc.subarray(QUESTIONS.proxies.map(({ namespace }) => `${namespace}/`)), { maxLength: 8 });
  fc.assert(
    fc.property(history, releases, (batches, gone) => {
      const model = modelOf(emptyMesh());
      const held = new Set<string>();
      for (const [index, batch] of batches.entries()) {
        const before = model.snapshot;
        for (const id of ids(before)) if (!held.has(id)) model.acquire(id);
        for (const id of ids(before)) held.add(id);
        const released = [...held].filter((id) => gone[index]?.includes(id) === true);
        for (const id of released) {
          assert.ok(model.release(id));
          held.delete(id);
        }
        const kept = new Map([...held].map((id) => [id, before.scopeById(id)]));
        assert.equal(model.scopes, [...kept.values()].filter((scope) => scope !== undefined).length);
        const { snapshot: after, changes } = model.apply({ changes: changesOf(batch), eventTime: 0 });
        for (const id of changes.scopes.keys()) assert.ok(held.has(id), `${id} was kept up though nobody holds it`);
        for (const [id, scope] of kept) assertExactScope(id, scope, after.scopeById(id), changes);
      }
      const fresh = replay(emptyMesh(), finalResources(batches));
      assert.deepEqual(dumpSnapshot(model.snapshot, QUESTIONS), dumpSnapshot(fresh, QUESTIONS));
    }),
    { numRuns: 100 },
  );
});

test('an update in slices equals one at once, whatever is acquired and released between the slices', () => {
  const between = fc.infiniteStream(fc.oneof(fc.constant('nothing'), fc.constant('acquire'), fc.constant('release')));
  fc.assert(
    fc.property(history, between, (batches, stream) => {
      const [sliced, whole] = [modelOf(emptyMesh()), modelOf(emptyMesh())];
      const held: string[] = [];
      for (const batch of batches) {
        const before = sliced.snapshot;
        const update = { changes: changesOf(batch), eventTime: 0 };
        const known = new Map<string, Scope | undefined>();
        const wanted = ids(before);
        const work = sliced.applyInSlices(update);
        let step = work.next();
        for (; step.done !== true; step = work.next()) {
          assert.equal(sliced.snapshot, before);
          const what = stream.next().value;
          const next = wanted.find((id) => !held.includes(id));
          if (what === 'acquire' && next !== undefined) {
            held.push(next);
            sliced.acquire(next);
            known.set(next, before.scopeById(next));
          } else if (what === 'release' && held.length > 0) sliced.release(held.shift() ?? '');
        }
        const { changes, snapshot: after } = step.value;
        whole.apply(update);
        assert.deepEqual(dumpSnapshot(after, QUESTIONS), dumpSnapshot(whole.snapshot, QUESTIONS));
        assert.equal(sliced.scopes, held.filter((id) => after.scopeById(id) !== undefined).length);
        const dumpOf = (scope: Scope | undefined) => scope && dumpScope(scope, QUESTIONS.hosts);
        for (const [id, scope] of known) {
          const isEqual = deepEqual(dumpOf(scope), dumpOf(after.scopeById(id)));
          assert.ok(isEqual || !held.includes(id) || changes.scopes.has(id), id);
        }
      }
    }),
    { numRuns: 60 },
  );
});

test('the order of resources within a replay does not matter', () => {
  const shuffled = history.chain((batches) => {
    const resources = finalResources(batches);
    return fc.tuple(fc.constant(resources), fc.shuffledSubarray(resources, { minLength: resources.length }));
  });
  fc.assert(
    fc.property(shuffled, ([one, other]) => {
      const dumps = [one, other].map((resources) => dumpSnapshot(replay(emptyMesh(), resources), QUESTIONS));
      assert.deepEqual(dumps[0], dumps[1]);
    }),
    { numRuns: 60 },
  );
});

function assertExactMaps<V>(
  what: string,
  before: { get(key: string): V | undefined; keys(): Iterable<string> },
  after: { get(key: string): V | undefined; keys(): Iterable<string> },
  said: { has(key: string): boolean },
): void {
  for (const key of new Set([...before.keys(), ...after.keys()])) {
    const equal = deepEqual(before.get(key), after.get(key));
    assert.equal(said.has(key), !equal, `${what} ${key}: said ${said.has(key)}, equal ${equal}`);
    assert.equal(before.get(key) === after.get(key), equal, `${what} ${key}: identity`);
  }
}

function assertExactScope(id: string, before: Scope | undefined, after: Scope | undefined, changes: ChangeSet): void {
  const change = changes.scopes.get(id);
  if (before === undefined || after === undefined) {
    const came = before === after ? undefined : true;
    assert.equal(change?.everything, came, `scope ${id} comes or goes`);
    return;
  }
  const equal = deepEqual(dumpScope(before, QUESTIONS.hosts), dumpScope(after, QUESTIONS.hosts));
  assert.equal(before === after, change === undefined, `scope ${id}: identity`);
  if (change?.everything === true) return;
  assert.equal(change === undefined, equal, `scope ${id}: said ${change !== undefined}`);
  if (change === undefined) return;
  for (const host of QUESTIONS.hosts) {
    const seen = (scope: Scope) =>
      [scope.services, ...scope.egress.map(({ services }) => services)].map((map) => map.get(host));
    assert.equal(change.hosts.has(host), !deepEqual(seen(before), seen(after)), `scope ${id}: host ${host}`);
    const ruleDiffers: boolean = !deepEqual(before.destinationRule(host), after.destinationRule(host));
    assert.equal(change.destinationRules.has(host), ruleDiffers, `scope ${id}: rule ${host}`);
  }
  const lists = [before, after].map((scope) => scope.egress.map(({ virtualServices }) => virtualServices));
  const keys = new Set(lists.flat(2).map(({ key }) => key));
  for (const key of keys) {
    const [was, is] = lists.map((listeners) => listeners.map((list) => list.find((each) => each.key === key)));
    const said = change.virtualServices.get(key);
    assert.equal(said !== undefined, !deepEqual(was, is), `scope ${id}: virtual service ${key}`);
    if (said === undefined) continue;
    const [before, after] = [was, is].map((listeners) => listeners?.find((each) => each !== undefined));
    assert.deepEqual([said.before, said.after], [before, after], `scope ${id}: sides of virtual service ${key}`);
  }
}

test('a change set has exactly the differences, and equal values stay the same object', () => {
  fc.assert(
    fc.property(history, fc.boolean(), (batches, useEndpointSlice) => {
      const model = modelOf(emptyMesh({ settings: { useEndpointSlice }, networks: NETWORKS }));
      const held = new Set<string>();
      for (const batch of batches) {
        const before = model.snapshot;
        for (const id of ids(before)) if (!held.has(id)) model.acquire(id);
        for (const id of ids(before)) held.add(id);
        const kept = new Map([...held].map((id) => [id, before.scopeById(id)]));
        const { snapshot: after, changes } = model.apply({ changes: changesOf(batch), eventTime: 0 });
        assertExactMaps('service', before.services, after.services, changes.services);
        assertExactMaps('peers', before.peers, after.peers, changes.peers);
        assertExactMaps('endpoints', before.endpoints, after.endpoints, changes.endpoints);
        for (const network of QUESTIONS.networks) {
          for (const address of QUESTIONS.addresses) {
            const equal = deepEqual(before.instancesAt(network, address), after.instancesAt(network, address));
            assert.equal(changes.addresses.has(`${network}/${address}`), !equal, `address ${address} of ${network}`);
          }
        }
        for (const [id, scope] of kept) assertExactScope(id, scope, after.scopeById(id), changes);
      }
    }),
    { numRuns: 150 },
  );
});

test('an old snapshot answers the same after later changes', () => {
  fc.assert(
    fc.property(history, history, (earlier, later) => {
      let snapshot = emptyMesh();
      for (const batch of earlier) snapshot = applyChanges(snapshot, { changes: changesOf(batch) }).snapshot;
      const dump = structuredClone(dumpSnapshot(snapshot, QUESTIONS));
      let next = snapshot;
      for (const batch of later) next = applyChanges(next, { changes: changesOf(batch) }).snapshot;
      assert.ok(deepEqual(dumpSnapshot(snapshot, QUESTIONS), dump));
    }),
    { numRuns: 40 },
  );
});
