import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ListedEvent } from '../../resources/index.ts';
import { resource } from '../../store/testing/documents.ts';
import { ObjectQuota, sizeOf } from './object-quota.ts';

const object = (name: string): ListedEvent => {
  return { type: 'set', resource: resource('Service', name, 1), eventTime: 1 };
};
const SIZE = sizeOf(object('a'));

test('the size of data follows its texts, fields and items', () => {
  assert.equal(sizeOf('x'.repeat(1000)) - sizeOf(''), 1000);
  assert.ok(sizeOf({ labels: { a: 'b' } }) > sizeOf({ labels: {} }));
  assert.ok(sizeOf([1, 2]) > sizeOf([1]));
  assert.equal(sizeOf(undefined), sizeOf(true));
});

test('collections share a quota; objects that replace others or are deleted free what they used', () => {
  const quota = new ObjectQuota(SIZE * 3);
  const [services, pods] = [quota.account(), quota.account()];
  const fill = (account: typeof services, ...names: readonly string[]) => {
    account.begin(true);
    const objects = names.map(object);
    for (const each of objects) account.receive(each);
    account.list(objects);
  };
  fill(services, 'a', 'b');
  fill(pods, 'c');
  // A list of the same size is received while the old one is in force.
  fill(services, 'a', 'b');
  assert.throws(() => fill(services, 'a', 'b', 'd'), /expected at most 0 MiB of objects in this cluster/);
  fill(services, 'b', 'a');
  services.begin(false);
  assert.throws(() => services.receive(object('d')), /expected at most/);
  services.begin(false);
  services.delete('Service/ns/a');
  services.delete('Service/ns/a');
  const d = object('d');
  services.receive(d);
  services.set(d);
  assert.throws(() => pods.receive(object('e')), /expected at most/);
  pods.begin(true);
  pods.list([]);
  pods.begin(false);
  const again = object('d');
  services.receive(again);
  services.set(again);
  pods.receive(object('e'));
});
