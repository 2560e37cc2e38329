import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_EVENT, parseResource } from '../resources/index.ts';
import type { AnyResource, ResourceEvent } from '../resources/kinds/types.ts';
import { createStore } from './store.ts';

function service(name: string, port: number, namespace = 'ns'): AnyResource {
  const document = { apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec: { ports: [{ port }] } };
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  assert.ok('resource' in parsed);
  return parsed.resource;
}

const set = (resource: AnyResource, eventTime = 0): ResourceEvent => ({ type: 'set', resource, eventTime });
const remove = (name: string, eventTime = 0): ResourceEvent => ({
  type: 'delete',
  key: `Service/ns/${name}`,
  eventTime,
});

function open(appNamespaces: readonly string[] = []) {
  const told: string[] = [];
  const store = createStore({
    sources: ['first', 'second', 'east'].map((id) => ({ id, cluster: id === 'east' ? 'east' : 'home' })),
    cluster: 'home',
    appNamespaces,
    rootNamespace: 'mesh-system',
    onRefused: (source, { id }) => void told.push(`${source} ${id} refused`),
    onResolved: (source, { id }) => void told.push(`${source} ${id} resolved`),
  });
  return { store, told };
}

test('changes are merged: the first `before`, the last `after`, the earliest time; a change that is undone disappears', () => {
  const { store } = open();
  store.apply('first', [set(service('a', 1), 5)]);
  store.take();
  store.apply('first', [set(service('a', 2), 20), set(service('b', 1), 10), remove('c', 7)]);
  store.apply('first', [set(service('a', 3), 30)]);
  const taken = store.take();
  assert.equal(taken.eventTime, 10);
  assert.deepEqual(
    taken.changes.map(({ key, before, after }) => [key, before?.fingerprint, after?.fingerprint]),
    [
      ['Service/ns/a', service('a', 1).fingerprint, service('a', 3).fingerprint],
      ['Service/ns/b', undefined, service('b', 1).fingerprint],
    ],
  );
  store.apply('first', [set(service('a', 9)), set(service('a', 3)), remove('b'), set(service('b', 1))]);
  assert.equal(store.hasPending(), false);
  assert.deepEqual(store.take(), { changes: [], eventTime: NO_EVENT });
});

test('a set that changes nothing is not a change', () => {
  const { store } = open();
  store.apply('first', [set(service('a', 1))]);
  const summary = store.apply('first', [set(service('a', 1)), set(service('a', 2))]);
  assert.deepEqual([...summary.changed], ['Service/ns/a']);
  assert.deepEqual(
    summary.events.map(({ effect, kind }) => `${effect} ${kind}`),
    ['update Service', 'update Service'],
  );
});

test('a filter takes only matching keys', () => {
  const { store } = open();
  store.apply('first', [set(service('a', 1), 1), set(service('b', 1), 2)]);
  const taken = store.take((key) => key.endsWith('/b'));
  assert.deepEqual([taken.changes.map(({ key }) => key), taken.eventTime], [['Service/ns/b'], 2]);
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
  store.apply('first', [set(service('a', 1)), set(service('a', 1, 'other')), set(service('a', 1, 'mesh-system'))]);
  store.apply('first', [set(namespace.resource)]);
  assert.deepEqual(
    store.take().changes.map(({ key }) => key),
    ['Namespace//other', 'Service/mesh-system/a', 'Service/ns/a'],
  );
});

test('a problem keeps the last good version, is reported once, and ends with the next valid one or when resolved', () => {
  const { store, told } = open();
  const problem = {
    id: 'Service/ns/a',
    key: 'Service/ns/a',
    origin: { source: 'test' },
    field: 'spec',
    message: 'bad',
  };
  const other = { ...problem, id: 'file#1', key: 'Service/ns/z' };
  store.apply('first', [set(service('a', 1))]);
  const summary = store.apply('first', [
    { type: 'invalid', problem, eventTime: 1 },
    { type: 'invalid', problem, eventTime: 2 },
    { type: 'invalid', problem: other, eventTime: 2 },
  ]);
  assert.equal(summary.newProblems, 2);
  assert.deepEqual(store.problems(), [problem, other]);
  assert.ok(store.get('Service/ns/a'));
  store.apply('first', [set(service('a', 1)), { type: 'resolved', id: 'file#1', eventTime: 3 }]);
  assert.deepEqual(store.problems(), []);
  assert.deepEqual(told, [
    'first Service/ns/a refused',
    'first file#1 refused',
    'first Service/ns/a resolved',
    'first file#1 resolved',
  ]);
});
