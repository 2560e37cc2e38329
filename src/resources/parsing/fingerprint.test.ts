import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import * as fc from '../../core/testing/properties.ts';
import { fingerprintOf } from './fingerprint.ts';

const META = { name: 'a', namespace: 'b', labels: {}, annotations: {} };
const of = (content: unknown) => fingerprintOf('Sidecar', META, content);

const key = fc.constantFrom('a', 'b', 'c', 'ab', '10', '9', 'x-y', 'é');
const leaf = fc.oneof(fc.constantFrom('a', '', '1', '"'), fc.integer({ min: 0, max: 3 }), fc.boolean());
const content = fc.letrec((tie) => ({
  node: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie('node'), { maxLength: 4 }),
    fc.dictionary(key, tie('node'), { maxKeys: 8, noNullPrototype: true }),
  ),
})).node;

/** The same value with the keys of all objects in the opposite order, and with a key that is undefined. */
function turned(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(turned);
  const entries = Object.entries(value).map(([name, item]) => [name, turned(item)] as const);
  return Object.fromEntries([['absent', undefined], ...entries.reverse()]);
}

test('property: the order of keys and absent values make no difference', () => {
  fc.assert(fc.property(content, (value) => assert.equal(of(turned(value)), of(value))));
});

test('the order of many keys makes no difference', () => {
  const labels = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`key-${(index * 7) % 1000}`, 'x']));
  const sorted = Object.fromEntries(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
  assert.notDeepEqual(Object.keys(labels), Object.keys(sorted));
  assert.equal(of({ labels }), of({ labels: sorted }));
  assert.equal(of(turned({ labels })), of({ labels }));
});

test('property: everything else makes a difference', () => {
  fc.assert(
    fc.property(content, content, (a, b) => assert.equal(of(a) === of(b), isDeepStrictEqual(a, b))),
    { numRuns: 500 },
  );
  assert.notEqual(of({ a: [1, 2] }), of({ a: [2, 1] }));
  assert.notEqual(of({ a: {} }), of({ a: [] }));
  assert.notEqual(of({}), fingerprintOf('Gateway', META, {}));
  assert.notEqual(of({}), fingerprintOf('Sidecar', { ...META, labels: { a: 'b' } }, {}));
});
