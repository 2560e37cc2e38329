import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Multimap } from './multimap.ts';

test('a key has its values once each, and none when all were deleted', () => {
  const map = new Multimap<string, { readonly name: string }>();
  const [a, b] = [{ name: 'a' }, { name: 'b' }];
  assert.deepEqual([...map.get('k')], []);
  assert.equal(map.add('k', a), true);
  assert.equal(map.add('k', a), false);
  assert.deepEqual([...map.get('k')], [a]);
  assert.equal(map.delete('k', b), false);
  assert.equal(map.add('k', b), false);
  assert.deepEqual([...map.get('k')], [a, b]);
  assert.equal(map.delete('k', a), false);
  assert.equal(map.delete('k', a), false);
  assert.deepEqual([...map.get('k')], [b]);
  assert.equal(map.add('k', a), false);
  assert.equal(map.delete('k', b), false);
  assert.equal(map.delete('k', a), true);
  assert.equal(map.delete('k', a), false);
  assert.deepEqual([...map.get('k')], []);
});

test('many values of a key are added, found and deleted as few are', () => {
  const map = new Multimap<number, { readonly at: number }>();
  const values = Array.from({ length: 20 }, (_, at) => ({ at }));
  assert.deepEqual(
    values.map((value) => map.add(1, value)),
    values.map((_, at) => at === 0),
  );
  for (const value of values) assert.equal(map.add(1, value), false);
  assert.deepEqual([...map.get(1)], values);
  assert.deepEqual(
    values.map((value) => map.delete(1, value)),
    values.map((_, at) => at === values.length - 1),
  );
  assert.deepEqual([...map.get(1)], []);
});
