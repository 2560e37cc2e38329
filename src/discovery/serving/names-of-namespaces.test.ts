import assert from 'node:assert/strict';
import { test } from 'node:test';
import { meshOf, meshResource } from '../../generate/testing/mesh.ts';
import { replay } from '../../model/testing/steps.ts';
import { NamesOfNamespaces } from './names-of-namespaces.ts';

const entry = (host: string, address: string, exportTo: readonly string[], namespace = 'shop') =>
  meshResource('ServiceEntry', namespace, host, {
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
    ['all', 'own', 'new'].filter((name) => names.of(namespace).find(`${name}.example`) !== undefined);
  assert.deepEqual(seen('shop'), ['all', 'own']);
  assert.deepEqual(seen('other'), ['all']);
  assert.equal(names.of('other'), names.of('third'), 'namespaces that see the same names share the table');
  snapshot = replay(snapshot, [entry('new.example', '192.0.2.3', ['*'])]);
  assert.deepEqual(seen('other'), ['all'], 'not compiled for each change');
  now = 1000;
  assert.deepEqual(seen('other'), ['all', 'new']);
});

test('tables of namespaces are bounded by their names: those that asked longest ago are forgotten', () => {
  const own = ['a', 'b', 'c'].map((namespace) => entry(`${namespace}.example`, '192.0.2.1', ['.'], namespace));
  const snapshot = meshOf([entry('all.example', '192.0.2.1', ['*']), ...own]);
  const names = new NamesOfNamespaces({ snapshot: () => snapshot, now: () => 0 }, 4);
  for (const namespace of ['a', 'b', 'c', 'd']) assert.notEqual(names.of(namespace).find('all.example'), undefined);
  assert.equal(names.size, 2, 'all.example and c.example of c, all.example of d');
  for (const namespace of ['e', 'f', 'g']) names.of(namespace);
  assert.equal(names.size, 5, 'a shared table counts once');
});
