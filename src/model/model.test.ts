import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf } from '../resources/kinds/types.ts';
import type { Model } from './model.ts';
import { fqdn, meshOf, resource, service } from './testing/build.ts';
import { modelOf } from './testing/steps.ts';

const sidecar = (path: string) => resource('Sidecar', path, { egress: [{ hosts: ['*/*'] }] });

function set(model: Model, ...resources: readonly ReturnType<typeof resource>[]) {
  const changes = resources.map((after) => ({ key: keyOf(after), before: undefined, after }));
  return model.apply({ changes, eventTime: 0 }).changes;
}

function remove(model: Model, key: string) {
  return model.apply({ changes: [{ key, before: undefined, after: undefined }], eventTime: 0 }).changes;
}

test('reading a snapshot does not change the results of later steps', () => {
  const model = modelOf(meshOf([service('a/web'), sidecar('b/s')]));
  const { snapshot } = model;
  snapshot.scopeOf('b', {});
  snapshot.scopeById('a/');
  snapshot.gatewayScope('edge');
  snapshot.gatewaysFor('edge', {});
  snapshot.sourceLabels('a/');
  assert.equal(model.scopes, 0);
  assert.deepEqual([...set(model, service('a/new')).scopes.keys()], []);
});

test('a scope is kept up to date from the first time that it is acquired to the last time that it is released', () => {
  const model = modelOf(meshOf([service('a/web')]));
  model.acquire('edge/');
  model.acquire('edge/');
  assert.deepEqual([...(set(model, service('a/one')).scopes.get('edge/')?.hosts ?? [])], [fqdn('one.a')]);
  assert.equal(model.release('edge/'), false);
  const kept = model.snapshot.gatewayScope('edge');
  assert.deepEqual([...set(model, service('a/two')).scopes.keys()], ['edge/']);
  assert.ok(!kept.services.has(fqdn('two.a')) && model.snapshot.gatewayScope('edge').services.has(fqdn('two.a')));
  assert.equal(model.release('edge/'), true);
  assert.equal(model.release('edge/'), false);
  assert.equal(model.scopes, 0);
  assert.deepEqual([...set(model, service('a/three')).scopes.keys()], []);
  assert.ok(model.snapshot.gatewayScope('edge').services.has(fqdn('three.a')));
});

test('a Sidecar’s scope may be acquired before the Sidecar exists, and stays after it is deleted', () => {
  const model = modelOf(meshOf([service('a/web')]));
  model.acquire('a/s');
  assert.equal(model.snapshot.scopeById('a/s'), undefined);
  assert.deepEqual([...set(model, service('a/one')).scopes.keys()], []);
  assert.equal(set(model, sidecar('a/s')).scopes.get('a/s')?.everything, true);
  assert.deepEqual([...(set(model, service('a/two')).scopes.get('a/s')?.hosts ?? [])], [fqdn('two.a')]);
  assert.equal(remove(model, 'Sidecar/a/s').scopes.get('a/s')?.everything, true);
  assert.deepEqual([...set(model, service('a/three')).scopes.keys()], []);
  assert.equal(set(model, sidecar('a/s')).scopes.get('a/s')?.everything, true);
  model.release('a/s');
  remove(model, 'Sidecar/a/s');
  assert.deepEqual([...set(model, sidecar('a/s')).scopes.keys()], []);
});

test('a changed mesh configuration changes everything in every acquired scope', () => {
  const model = modelOf(meshOf([service('a/web')]));
  model.acquire('b/');
  const mesh = { ...model.snapshot.mesh, defaultServiceExportTo: ['.'] };
  assert.equal(model.apply({ changes: [], mesh, eventTime: 0 }).changes.scopes.get('b/')?.everything, true);
  assert.equal(model.scopes, 1);
  assert.deepEqual([...(set(model, service('b/new')).scopes.get('b/')?.hosts ?? [])], [fqdn('new.b')]);
});

test('a step that fails does not change the model', () => {
  const model = modelOf(meshOf([service('a/web')]));
  model.acquire('a/');
  const { snapshot } = model;
  const broken = { ...service('a/broken'), content: undefined } as never;
  assert.throws(() => set(model, broken));
  assert.equal(model.snapshot, snapshot);
  assert.deepEqual([...(set(model, service('a/new')).scopes.get('a/')?.hosts ?? [])], [fqdn('new.a')]);
});

test('steps of a fork do not change the original model', () => {
  const model = modelOf(meshOf([service('a/web')]));
  model.acquire('a/');
  const fork = model.fork();
  assert.deepEqual([...set(fork, service('a/one')).scopes.keys()], ['a/']);
  fork.release('a/');
  assert.ok(!model.snapshot.services.has(`a/${fqdn('one.a')}`));
  assert.deepEqual([...(set(model, service('a/two')).scopes.get('a/')?.hosts ?? [])], [fqdn('two.a')]);
});
