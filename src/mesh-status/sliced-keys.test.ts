import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitUntil } from '../core/testing/wait-until.ts';
import { SlicedKeys } from './sliced-keys.ts';

const KEYS = Array.from({ length: 1200 }, (_, index) => `key-${index}`);

test('keys are passed on with turns of the event loop in between, and once more if something changes', async () => {
  const passed: (readonly string[])[] = [];
  const pass = (keys: readonly string[]): void => {
    // Three changes between the first slice and the second.
    if (passed.push(keys) === 1) for (let change = 0; change < 3; change++) queueMicrotask(() => sliced.start());
  };
  const sliced = new SlicedKeys({ keys: () => KEYS, pass });
  sliced.start();
  assert.equal(passed.length, 0);
  await waitUntil(() => passed.flat().length >= 2 * KEYS.length);
  assert.ok(passed[0] !== undefined && passed[0].length < KEYS.length);
  assert.deepEqual(passed.flat(), [...KEYS, ...KEYS]);
});

test('nothing is passed on after the end', async () => {
  const passed: string[] = [];
  const sliced = new SlicedKeys({ keys: () => KEYS, pass: (keys) => void passed.push(...keys) });
  sliced.start();
  sliced.close();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(passed, []);
});
