import assert from 'node:assert/strict';
import { test } from 'node:test';
import { meshOf, meshResource } from '../generate/testing/mesh.ts';
import { replay } from '../model/testing/steps.ts';
import { NamesOfNamespaces } from './names-of-namespaces.ts';

const entry = (host: string, address: string, exportTo: readonly string[]) =>
  meshResource('ServiceEntry', 'shop', host, {
    hosts: [host],
    addresses: [address],
    exportTo,
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
  });

test('a namespace has the names that its workloads see, after a second those of a new snapshot', () => {
  let snapshot = meshOf([entry('all.example', '192.0.2.1', ['*']), entry('own.example', '192.0.2.2', ['.'])]);
  let now = 0;
  const names = new NamesOfNamespaces({ snapshot: () => snapshot, now: () => now });
  const seen = (namespace: string) =>
    ['all', 'own', 'new'].filter((name) => names.of(namespace).has(`${name}.example`));
  assert.deepEqual(seen('shop'), ['all', 'own']);
  assert.deepEqual(seen('other'), ['all']);
  assert.equal(names.of('other'), names.of('third'), 'namespaces that see the same names share the table');
  snapshot = replay(snapshot, [entry('new.example', '192.0.2.3', ['*'])]);
  assert.deepEqual(seen('other'), ['all'], 'not compiled for each change');
  now = 1000;
  assert.deepEqual(seen('other'), ['all', 'new']);
});
