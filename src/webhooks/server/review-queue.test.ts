import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { AdmissionReviewQueue, type Lane } from './review-queue.ts';

const lane = (caller: string, group = '', rank = 0): Lane => ({ rank, caller, group });
const queueOf = (capacity = 1000, rankShares = [1, 0.5]) => new AdmissionReviewQueue<string>({ capacity, rankShares });

/** Serves up to `count` items with the costs that their names end with. */
function serve(queue: AdmissionReviewQueue<string>, count = Number.POSITIVE_INFINITY): string[] {
  const items: string[] = [];
  while (items.length < count) {
    const taken = queue.take();
    if (taken === undefined) break;
    items.push(taken.item);
    taken.served(Number(/\d+$/.exec(taken.item)?.[0] ?? 1));
  }
  return items;
}

test('a better rank is served first, and a worse one when nothing else waits', () => {
  const queue = queueOf();
  for (const item of ['a', 'b']) queue.push(lane('x', '', 1), item, 1);
  queue.push(lane('y'), 'c', 1000);
  assert.deepEqual(serve(queue), ['c', 'a', 'b']);
});

test('callers share time: one with large items gets fewer of them served', () => {
  const queue = queueOf();
  for (let times = 0; times < 10; times++) {
    queue.push(lane('large'), 'large 100', 1);
    queue.push(lane('small'), 'small 10', 1);
  }
  const items = serve(queue, 11);
  assert.equal(items.filter((item) => item.startsWith('large')).length, 1, items.join());
});

test('groups of one caller share its time, and more groups do not give a caller more', () => {
  const queue = queueOf();
  for (let times = 0; times < 100; times++) {
    queue.push(lane('x', times < 50 ? 'many' : `g${times}`), `x${times} 10`, 10);
    if (times < 50) queue.push(lane('y', 'one'), 'y 10', 10);
  }
  queue.push(lane('x', 'late'), 'late 10', 10);
  const items = serve(queue, 40);
  assert.equal(items.filter((item) => item === 'y 10').length, 20, items.join());
  const many = items.filter((item) => /^x([0-9]|[1-4][0-9]) /.test(item));
  assert.ok(many.length <= 2, many.join());
});

test('small items of a new caller do not wait for large ones of many others', () => {
  const queue = queueOf();
  for (let index = 0; index < 100; index++) queue.push(lane(`large${index}`), 'large 100', 100);
  queue.push(lane('small'), 'small 1', 1);
  assert.deepEqual(serve(queue, 2), ['small 1', 'large 100']);
});

test('a caller that has used little time does not wait for large items of new callers', () => {
  const queue = queueOf();
  for (let index = 0; index < 20; index++) {
    queue.push(lane(`large${index}`), 'large 100', 100);
    queue.push(lane('small'), 'small 1', 1);
    const items = serve(queue, 1);
    if (index > 0) items.push(...serve(queue, 1));
    assert.equal(items[0], 'small 1', `after ${index}`);
  }
});

test('a caller that was served alone for a long time does not wait afterwards, and owes what exceeded its estimate', () => {
  const queue = queueOf();
  for (let times = 0; times < 50; times++) queue.push(lane('x'), 'x 10', 10);
  serve(queue);
  for (let times = 0; times < 4; times++) for (const caller of ['x', 'y']) queue.push(lane(caller), `${caller} 10`, 10);
  assert.deepEqual(serve(queue, 4).sort(), ['x 10', 'x 10', 'y 10', 'y 10']);
  const other = queueOf();
  other.push(lane('x'), 'x 50', 1);
  serve(other);
  for (let times = 0; times < 4; times++) for (const caller of ['x', 'y']) other.push(lane(caller), `${caller} 10`, 10);
  assert.deepEqual(serve(other, 4), ['y 10', 'y 10', 'y 10', 'y 10']);
});

test('one group gets half of the free places, one caller four of five, and others still find some', () => {
  const queue = queueOf(100, [1]);
  const fill = (caller: string, group: string): number => {
    let count = 0;
    while (queue.push(lane(caller, group), 'item', 1)) count++;
    return count;
  };
  assert.equal(fill('x', 'a'), 50);
  for (let index = 0; index < 100; index++) fill('x', `g${index}`);
  assert.equal(queue.size, 80);
  assert.ok(fill('y', 'a') > 0);
});

test('a worse rank leaves its part of the places to better ones', () => {
  const queue = queueOf(100, [1, 0.5]);
  for (let index = 0; index < 200; index++) queue.push(lane(`c${index}`, '', 1), 'item', 1);
  assert.equal(queue.size, 50);
  assert.ok(queue.push(lane('x'), 'item', 1));
  assert.equal(queue.push(lane('y', '', 1), 'item', 1), false);
});

test('callers whose reviews take less than expected get their share of time', () => {
  const queue = queueOf();
  for (let times = 0; times < 100; times++) {
    queue.push(lane('over'), 'over 1', 50);
    queue.push(lane('right'), 'right 1', 1);
  }
  const items = serve(queue, 100);
  assert.ok(items.filter((item) => item === 'over 1').length >= 25, items.join());
});

test('the times of groups are remembered while their caller waits, however many callers come', () => {
  const queue = queueOf();
  queue.push(lane('x', 'many'), 'x many 1000', 1);
  serve(queue);
  for (const group of ['many', 'few']) queue.push(lane('x', group), `x ${group} 1`, 1);
  for (let index = 0; index < 500; index++) {
    queue.push(lane(`c${index}`, '', 0), 'item 1', 1);
    serve(queue, 1);
  }
  queue.push(lane('x', 'few'), 'x few 1', 1);
  assert.deepEqual(serve(queue), ['x few 1', 'x few 1', 'x many 1']);
});

test('everything is served, in order within a group, and callers that wait get equal time', () => {
  const step = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        caller: fc.constantFrom('a', 'b', 'c'),
        group: fc.nat(1),
        estimate: fc.integer({ min: 1, max: 20 }),
        cost: fc.nat(20),
      }),
    },
    fc.record({ serve: fc.integer({ min: 1, max: 4 }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const queue = queueOf();
      let number = 0;
      const waiting = new Map<string, number>([
        ['a', 0],
        ['b', 0],
        ['c', 0],
      ]);
      const [pushed, served]: [string[], string[]] = [[], []];
      /** Time of the callers since both began to wait, by pair. */
      const since = new Map<string, [number, number]>();
      const most = 20;
      const run = (count: number): void => {
        for (const item of serve(queue, count)) {
          served.push(item);
          const [caller = '', , , cost] = item.split(' ');
          for (const [pair, times] of since) {
            const at = pair.indexOf(caller);
            if (at >= 0) times[at as 0 | 1] += Number(cost);
            assert.ok(Math.abs(times[0] - times[1]) <= 4 * most, `${pair}: ${times}`);
          }
          waiting.set(caller, (waiting.get(caller) ?? 0) - 1);
          if (waiting.get(caller) === 0)
            for (const pair of [...since.keys()]) if (pair.includes(caller)) since.delete(pair);
        }
      };
      for (const each of steps) {
        if ('serve' in each) {
          run(each.serve);
          continue;
        }
        const { caller, group, estimate, cost } = each;
        const item = `${caller} ${group} ${number++} ${cost}`;
        assert.ok(queue.push(lane(caller, `${group}`), item, estimate));
        pushed.push(item);
        waiting.set(caller, (waiting.get(caller) ?? 0) + 1);
        for (const pair of ['ab', 'ac', 'bc'])
          if ([...pair].every((one) => (waiting.get(one) ?? 0) > 0) && !since.has(pair)) since.set(pair, [0, 0]);
      }
      run(Number.POSITIVE_INFINITY);
      assert.deepEqual([...served].sort(), [...pushed].sort());
      const ofGroup = (items: string[], prefix: string) => items.filter((item) => item.startsWith(prefix));
      for (const caller of 'abc')
        for (const group of '01') {
          const prefix = `${caller} ${group} `;
          assert.deepEqual(ofGroup(served, prefix), ofGroup(pushed, prefix));
        }
    }),
    { numRuns: 500 },
  );
});
