import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseResource } from '../resources/index.ts';
import type { AnyResource, ResourceEvent, ResourceProblem } from '../resources/types.ts';
import { createStore } from './store.ts';

function service(name: string, port: number, namespace = 'ns'): AnyResource {
  const document = { apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec: { ports: [{ port }] } };
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  assert.ok('resource' in parsed);
  return parsed.resource;
}

const set = (resource: AnyResource, at = 0): ResourceEvent => ({ type: 'set', resource, at });
const remove = (name: string, at = 0): ResourceEvent => ({ type: 'delete', key: `Service/ns/${name}`, at });

function open(appNamespaces: readonly string[] = []) {
  const told: (readonly [string, ResourceProblem | undefined])[] = [];
  const store = createStore({
    appNamespaces,
    rootNamespace: 'mesh-system',
    onProblem: (id, problem) => void told.push([id, problem]),
  });
  return { store, told };
}

test('changes are merged: first before, last after, earliest time; there and back is nothing', () => {
  const { store } = open();
  store.apply([set(service('a', 1), 5)]);
  store.take();
  store.apply([set(service('a', 2), 20), set(service('b', 1), 10), remove('c', 7)]);
  store.apply([set(service('a', 3), 30)]);
  const taken = store.take();
  assert.equal(taken.firstEventAt, 10);
  assert.deepEqual(
    taken.changes.map(({ key, before, after }) => [key, before?.fingerprint, after?.fingerprint]),
    [
      ['Service/ns/a', service('a', 1).fingerprint, service('a', 3).fingerprint],
      ['Service/ns/b', undefined, service('b', 1).fingerprint],
    ],
  );
  store.apply([set(service('a', 9)), set(service('a', 3)), remove('b'), set(service('b', 1))]);
  assert.equal(store.hasPending(), false);
  assert.deepEqual(store.take(), { changes: [], firstEventAt: undefined });
});

test('a set that changes nothing is ignored', () => {
  const { store } = open();
  store.apply([set(service('a', 1))]);
  const summary = store.apply([set(service('a', 1)), set(service('a', 2))]);
  assert.deepEqual([[...summary.changed], summary.ignored], [['Service/ns/a'], 1]);
});

test('a filter takes some keys and leaves the rest', () => {
  const { store } = open();
  store.apply([set(service('a', 1), 1), set(service('b', 1), 2)]);
  const taken = store.take((key) => key.endsWith('/b'));
  assert.deepEqual([taken.changes.map(({ key }) => key), taken.firstEventAt], [['Service/ns/b'], 2]);
  assert.deepEqual(
    store.take().changes.map(({ key }) => key),
    ['Service/ns/a'],
  );
});

test('namespaces that are not the application’s are left out, except the root namespace and cluster-scoped kinds', () => {
  const { store } = open(['ns']);
  const namespace = parseResource(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'other' } },
    { source: 'test' },
    () => undefined,
  );
  assert.ok('resource' in namespace);
  store.apply([set(service('a', 1)), set(service('a', 1, 'other')), set(service('a', 1, 'mesh-system'))]);
  store.apply([set(namespace.resource)]);
  assert.deepEqual(
    store.all('Service').map(({ meta }) => meta.namespace),
    ['ns', 'mesh-system'],
  );
  assert.deepEqual(
    [...store.counts()],
    [
      ['Service', 2],
      ['Namespace', 1],
    ],
  );
});

test('a problem keeps the last good version, is told once, and ends with the next good one or when resolved', () => {
  const { store, told } = open();
  const problem = {
    id: 'Service/ns/a',
    key: 'Service/ns/a',
    origin: { source: 'test' },
    field: 'spec',
    message: 'bad',
  };
  const other = { ...problem, id: 'file#1', key: 'Service/ns/z' };
  store.apply([set(service('a', 1))]);
  const summary = store.apply([
    { type: 'invalid', problem, at: 1 },
    { type: 'invalid', problem, at: 2 },
    { type: 'invalid', problem: other, at: 2 },
  ]);
  assert.equal(summary.newProblems, 2);
  assert.deepEqual(store.problems(), [problem, other]);
  assert.ok(store.get('Service/ns/a'));
  store.apply([set(service('a', 1)), { type: 'resolved', id: 'file#1', at: 3 }]);
  assert.deepEqual(store.problems(), []);
  assert.deepEqual(told, [
    [problem.id, problem],
    [other.id, other],
    [problem.id, undefined],
    [other.id, undefined],
  ]);
});

const anyEvent = fc
  .record({ name: fc.constantFrom('a', 'b', 'c'), port: fc.constantFrom(0, 1, 2), at: fc.nat(100) })
  .map(({ name, port, at }) => (port === 0 ? remove(name, at) : set(service(name, port), at)));

test('property: interleaving events of different keys, in batches of any size, ends in the same state', () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 20 }), fc.infiniteStream(fc.nat(2)), (events, picks) => {
      const one = open().store;
      one.apply(events);
      const other = open().store;
      const nameOf = (event: ResourceEvent) =>
        event.type === 'set' ? event.resource.meta.name : 'key' in event ? event.key.slice(-1) : '';
      // One queue per key keeps each key's own order; the picks interleave them.
      const queues = ['a', 'b', 'c'].map((name) => events.filter((event) => nameOf(event) === name));
      while (queues.some((queue) => queue.length > 0)) {
        const event = queues[picks.next().value ?? 0]?.shift();
        if (event !== undefined) other.apply([event]);
        else for (const queue of queues) other.apply(queue.splice(0, 1));
      }
      assert.deepEqual(one.take().changes, other.take().changes);
      const byName = (a: AnyResource, b: AnyResource) => (a.meta.name < b.meta.name ? -1 : 1);
      assert.deepEqual([...one.all('Service')].sort(byName), [...other.all('Service')].sort(byName));
    }),
  );
});

test('property: replaying what was taken, whenever it was taken, rebuilds the state', () => {
  const steps = fc.array(fc.oneof(anyEvent, fc.constant('take' as const)), { maxLength: 30 });
  fc.assert(
    fc.property(steps, (all) => {
      const { store } = open();
      const replica = new Map<string, AnyResource>();
      const take = () => {
        for (const { key, before, after } of store.take().changes) {
          assert.equal(replica.get(key)?.fingerprint, before?.fingerprint);
          assert.notEqual(before?.fingerprint, after?.fingerprint);
          if (after === undefined) replica.delete(key);
          else replica.set(key, after);
        }
      };
      for (const step of all) {
        if (step === 'take') take();
        else store.apply([step]);
      }
      take();
      assert.deepEqual(
        [...replica.values()].map(({ fingerprint }) => fingerprint).sort(),
        store
          .all('Service')
          .map(({ fingerprint }) => fingerprint)
          .sort(),
      );
    }),
  );
});
