import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Closers } from './closers.ts';

test('parts are ended in the opposite order, also after one that fails', async () => {
  const [ended, failed]: [string[], string[]] = [[], []];
  const closers = new Closers((line) => failed.push(line));
  closers.add(() => void ended.push('first'));
  closers.add(() => Promise.reject(new Error('no answer')));
  closers.add(() => void ended.push('last'));
  await closers.close();
  assert.deepEqual(ended, ['last', 'first']);
  assert.deepEqual(failed, ['a part of the program could not be ended: no answer']);
});

test('a part that is started while the program stops is ended, and the start goes no further', async () => {
  const ended: string[] = [];
  const closers = new Closers();
  await closers.close();
  assert.throws(() => closers.add(() => void ended.push('late')), /the program is being stopped/);
  assert.deepEqual(ended, ['late']);
});
