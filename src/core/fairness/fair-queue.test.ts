import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../testing/properties.ts';
import { createFairQueue, type FairQueue } from './fair-queue.ts';

function fill(queue: FairQueue<string>, lane: string, count: number): number {
  let taken = 0;
  for (let index = 0; index < count; index++) if (queue.push(lane, `${lane}${index}`)) taken++;
  return taken;
}

test('lanes are served in turn, each in its order', () => {
  const queue = createFairQueue<string>(100);
  fill(queue, 'a', 4);
  fill(queue, 'b', 1);
  fill(queue, 'c', 2);
  assert.deepEqual(queue.take(5), ['a0', 'b0', 'c0', 'a1', 'c1']);
  fill(queue, 'b', 1);
  assert.deepEqual(queue.take(9), ['a2', 'b0', 'a3']);
  assert.equal(queue.size, 0);
});

test('one lane gets half of the capacity, two get a third each, and the next one still finds some', () => {
  const queue = createFairQueue<string>(900);
  assert.equal(fill(queue, 'a', 1000), 450);
  queue.take(900);
  let accepted = { a: 0, b: 0 };
  for (let round = 0; round < 1000; round++)
    accepted = { a: accepted.a + fill(queue, 'a', 1), b: accepted.b + fill(queue, 'b', 1) };
  assert.deepEqual(accepted, { a: 300, b: 300 });
  assert.equal(fill(queue, 'c', 1000), 150);
});

test('no item is lost and the capacity is never exceeded', () => {
  const step = fc.oneof(
    fc.record({ lane: fc.constantFrom('a', 'b', 'c') }),
    fc.record({ count: fc.integer({ min: 1, max: 5 }) }),
  );
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), fc.array(step, { maxLength: 60 }), (capacity, steps) => {
      const queue = createFairQueue<{ lane: string; number: number }>(capacity);
      const waiting: { lane: string; number: number }[] = [];
      for (const [number, each] of steps.entries()) {
        if ('lane' in each) {
          const item = { lane: each.lane, number };
          const accepted = queue.push(each.lane, item);
          const share = capacity - waiting.length;
          assert.equal(accepted, waiting.filter(({ lane }) => lane === each.lane).length < share);
          if (accepted) waiting.push(item);
        } else {
          for (const item of queue.take(each.count)) {
            assert.equal(
              waiting.find(({ lane }) => lane === item.lane),
              item,
              'the oldest of its lane',
            );
            waiting.splice(waiting.indexOf(item), 1);
          }
        }
        assert.equal(queue.size, waiting.length);
        assert.ok(queue.size <= capacity);
      }
    }),
  );
});
