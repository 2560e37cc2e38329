import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BodyIndex } from '../bench/client/bodies.ts';
import { NOTHING } from '../bench/client/resource-set.ts';

function field(number: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([number * 8 + 2, bytes.length]), bytes]);
}

/** The `resources` of a response with one cluster load assignment: a Resource of its name, with an Any with it. */
function named(name: string): Buffer {
  const text = Buffer.from(name);
  return field(2, Buffer.concat([field(3, text), field(2, field(2, field(1, text)))]));
}

test('a set keeps the results of bodies of two indexes apart', () => {
  const names = ['first', 'second'].map((name) => {
    const body = new BodyIndex('delta').take('eds', named(name));
    return [...NOTHING.after(body, [], false).map.keys()];
  });
  assert.deepEqual(names, [['first'], ['second']]);
});
