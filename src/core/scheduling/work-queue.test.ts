import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../testing/fake-clock.ts';
import { type Outcome, WorkQueue } from './work-queue.ts';

/** A queue whose work ends when a test says so. */
function queue(concurrency = 1, laneOf?: (key: string) => string) {
  const clock = fakeClock();
  const begun: string[] = [];
  const running = new Map<string, (outcome: Outcome) => void>();
  const work = (key: string): Promise<Outcome> => {
    assert.ok(!running.has(key), `${key} is worked on once at a time`);
    begun.push(key);
    return new Promise((resolve) => running.set(key, resolve));
  };
  const end = async (key: string, outcome: Outcome = 'done'): Promise<void> => {
    const resolve = running.get(key);
    running.delete(key);
    resolve?.(outcome);
    await clock.advance(0);
  };
  return { clock, begun, end, queue: new WorkQueue({ work, concurrency, laneOf, clock, random: () => 0 }) };
}

test('works on so many keys at once, in their order', async () => {
  const it = queue(2);
  for (const key of ['a', 'b', 'c', 'd']) it.queue.add(key);
  assert.deepEqual(it.begun, ['a', 'b']);
  await it.end('b');
  assert.deepEqual(it.begun, ['a', 'b', 'c']);
});

test('serves lanes in turn, so that many keys of one do not delay another', async () => {
  const it = queue(1, (key) => key.slice(0, 1));
  for (const key of ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2']) it.queue.add(key);
  for (const key of ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']) await it.end(key);
  assert.deepEqual(it.begun, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
});

test('works once more on a key that is added while it is worked on', async () => {
  const it = queue();
  for (let time = 0; time < 3; time++) it.queue.add('a');
  await it.end('a');
  await it.end('a');
  assert.deepEqual(it.begun, ['a', 'a']);
});

test('repeats a failure after a delay that grows, which a change does not shorten', async () => {
  const it = queue();
  it.queue.add('a');
  await it.end('a', 'failed');
  it.queue.add('a');
  await it.clock.advance(499);
  assert.deepEqual(it.begun, ['a']);
  await it.clock.advance(1);
  await it.end('a', 'failed');
  await it.clock.advance(999);
  assert.deepEqual(it.begun, ['a', 'a']);
  await it.clock.advance(1);
  await it.end('a');
  it.queue.add('a');
  await it.end('a', 'failed');
  await it.clock.advance(500);
  assert.equal(it.begun.length, 5, 'a success ends the growth');
});

test('does not let a delayed key delay others', async () => {
  const it = queue();
  it.queue.add('a');
  await it.end('a', 60_000);
  it.queue.add('b');
  assert.deepEqual(it.begun, ['a', 'b']);
  await it.end('b');
  await it.clock.advance(60_000);
  assert.deepEqual(it.begun, ['a', 'b', 'a']);
});

test('begins nothing after it is closed, and waits for what runs', async () => {
  const it = queue();
  for (const key of ['a', 'b']) it.queue.add(key);
  let closed = false;
  void it.queue.close().then(() => (closed = true));
  it.queue.add('c');
  await it.clock.advance(1);
  assert.equal(closed, false);
  await it.end('a', 'failed');
  await it.clock.advance(60_000);
  assert.ok(closed);
  assert.deepEqual(it.begun, ['a']);
});
