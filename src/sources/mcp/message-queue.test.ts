import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Slices } from '../../core/slices.ts';
import { MessageQueue } from './message-queue.ts';

/** A queue for messages whose first byte is how many slices they need; each slice takes 10 ms of a clock by hand. */
function played() {
  let now = 0;
  const [done, reads, failures]: [string[], boolean[], unknown[]] = [[], [], []];
  const queue = new MessageQueue<string>({
    *process(message): Slices<string> {
      for (let slice = 0; slice < (message[0] ?? 0); slice++) {
        now += 10;
        yield;
      }
      if (message[1] === 0) throw new Error('wrong');
      return message.toString('hex');
    },
    done: (result) => void done.push(result),
    failed: (error) => void failures.push(error),
    read: (enabled) => void reads.push(enabled),
    now: () => now,
  });
  return { queue, done, reads, failures };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('a short message is processed at once', () => {
  const { queue, done } = played();
  queue.add(Buffer.of(0, 1));
  assert.deepEqual(done, ['0001']);
});

test('a long message is processed over several turns, in which nothing is read, and the next one follows', async () => {
  const { queue, done, reads } = played();
  queue.add(Buffer.of(3, 1));
  queue.add(Buffer.of(0, 2));
  assert.deepEqual([done, reads], [[], [false]]);
  await turn();
  assert.deepEqual(done, []);
  for (let index = 0; index < 3; index++) await turn();
  assert.deepEqual([done, reads.at(-1)], [['0301', '0002'], true]);
});

test('when a stream has ended, the message in work is completed, and those that wait are dropped', async () => {
  const { queue, done } = played();
  queue.add(Buffer.of(2, 1));
  queue.add(Buffer.of(0, 2));
  let idle = false;
  queue.close(() => {
    idle = true;
  });
  assert.equal(idle, false);
  for (let index = 0; index < 4; index++) await turn();
  assert.deepEqual([done, idle], [['0201'], true]);
  queue.add(Buffer.of(0, 3));
  assert.deepEqual(done, ['0201']);
});

test('a message that cannot be processed is the last one', async () => {
  const { queue, done, failures } = played();
  queue.add(Buffer.of(1, 0));
  queue.add(Buffer.of(0, 2));
  for (let index = 0; index < 3; index++) await turn();
  assert.match(String(failures), /wrong/);
  assert.deepEqual([done, failures.length], [[], 1]);
});

test('a message is done when its promise is, before the next one, and one that rejects is the last', async () => {
  const results: PromiseWithResolvers<string>[] = [];
  const [done, failures, reads]: [string[], unknown[], boolean[]] = [[], [], []];
  const queue = new MessageQueue<string>({
    // biome-ignore lint/correctness/useYield: it is not interrupted
    *process() {
      const result = Promise.withResolvers<string>();
      results.push(result);
      return result.promise;
    },
    done: (result) => void done.push(result),
    failed: (error) => void failures.push(error),
    read: (enabled) => void reads.push(enabled),
    now: () => 0,
  });
  for (let index = 0; index < 3; index++) queue.add(Buffer.of(index));
  assert.deepEqual([results.length, reads], [1, [false]]);
  results[0]?.resolve('first');
  await turn();
  assert.deepEqual([results.length, done], [2, ['first']]);
  results[1]?.reject('wrong');
  await turn();
  assert.deepEqual([results.length, done, failures], [2, ['first'], ['wrong']]);
});
