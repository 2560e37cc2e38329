import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Closers, startParts } from './closers.ts';

function setUp() {
  const [ended, failed]: [string[], string[]] = [[], []];
  const part = (name: string) => ({ name, close: () => void ended.push(name) });
  return { ended, failed, part, log: { error: (line: string) => void failed.push(line) } };
}

test('parts are ended in the opposite order, even after one that fails', async () => {
  const { ended, failed, part, log } = setUp();
  const closers = new Closers(log);
  assert.equal(closers.use(part('first')).name, 'first');
  closers.add(() => Promise.reject(new Error('no answer')));
  closers.use(part('last'));
  await closers.close();
  assert.deepEqual(ended, ['last', 'first']);
  assert.deepEqual(failed, ['a part of the program could not be stopped: no answer']);
});

test('a part that is started while the program stops is ended, and the start goes no further', async () => {
  const { ended, part, log } = setUp();
  const closers = new Closers(log);
  await closers.close();
  assert.throws(() => closers.use(part('late')), /the program is being stopped/);
  assert.deepEqual(ended, ['late']);
});

test('all parts learn that the closing begins before the first of them is ended', async () => {
  const { ended, part, log } = setUp();
  const closers = new Closers(log);
  closers.use(part('only'));
  closers.closing.addEventListener('abort', () => ended.push('told'));
  await closers.close();
  assert.deepEqual(ended, ['told', 'only']);
});

test('a part of several ends those that it has started when it is ended, and when another cannot be started', async () => {
  const { ended, part, log } = setUp();
  const started = await startParts(log, async (closers) => ({ name: closers.use(part('one')).name }));
  assert.deepEqual([started.name, ended], ['one', []]);
  await started.close();
  assert.deepEqual(ended, ['one']);
  const failing = startParts(log, async (closers) => {
    closers.use(part('two'));
    throw new Error('no port');
  });
  await assert.rejects(failing, /no port/);
  assert.deepEqual(ended, ['one', 'two']);
});
