import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { JobQueue, laneOf } from './job-queue.ts';

const lane = (group: string, caller = group) => ({ group, caller });

/** Serves all jobs; each takes as long as `cost` says. */
function drained<T>(queue: JobQueue<T>, cost: (item: T) => number = () => 1): T[] {
  const items: T[] = [];
  for (let next = queue.next(); next !== undefined; next = queue.next()) {
    items.push(next.item);
    queue.charge(next.lane, cost(next.item));
  }
  return items;
}

describe('job queue', () => {
  it('serves groups by the time that they have used, and the jobs of one in order', () => {
    const queue = new JobQueue<string>();
    for (const item of ['a1', 'a2', 'a3']) queue.add(item, [lane('a')]);
    for (const item of ['b1', 'b2', 'b3', 'b4']) queue.add(item, [lane('b')]);
    const cost = (item: string) => (item.startsWith('a') ? 3 : 1);
    assert.deepEqual(drained(queue, cost), ['a1', 'b1', 'b2', 'b3', 'a2', 'b4', 'a3']);
  });

  it('shares the time of a group among its callers', () => {
    const queue = new JobQueue<string>();
    for (const item of ['a1', 'a2', 'a3']) queue.add(item, [lane('shop', 'a')]);
    for (const item of ['b1', 'b2']) queue.add(item, [lane('shop', 'b')]);
    queue.add('c1', [lane('other')]);
    assert.deepEqual(drained(queue), ['a1', 'c1', 'b1', 'a2', 'b2', 'a3']);
  });

  it('serves a job of several callers once, at the first of their turns', () => {
    const queue = new JobQueue<string>();
    for (let index = 0; index < 1000; index++) queue.add(`a${index}`, [lane('a')]);
    queue.add('shared', [lane('a'), lane('b')]);
    assert.equal(queue.size, 1001);
    const [first, second] = drained(queue);
    assert.deepEqual([first, second], ['a0', 'shared']);
  });

  it('serves a caller that comes late at once, but not for the time in which it asked for nothing', () => {
    const queue = new JobQueue<string>();
    for (let index = 0; index < 100; index++) queue.add(`a${index}`, [lane('a')]);
    for (let index = 0; index < 50; index++) queue.charge(queue.next()?.lane ?? lane(''), 1);
    for (let index = 0; index < 3; index++) queue.add(`b${index}`, [lane('b')]);
    assert.deepEqual(drained(queue).slice(0, 6), ['b0', 'a50', 'b1', 'a51', 'b2', 'a52']);
  });

  it('continues what was begun before it begins more of a caller, and only where it may', () => {
    const queue = new JobQueue<string>();
    queue.add('begun elsewhere', [lane('a')], { begun: true });
    queue.add('new', [lane('a')]);
    queue.add('begun', [lane('a')], { begun: true });
    const isHere = (item: string) => item !== 'begun elsewhere';
    assert.deepEqual([queue.next(isHere)?.item, queue.next(isHere)?.item], ['begun', 'new']);
    assert.equal(queue.next(isHere), undefined);
    assert.equal(queue.next()?.item, 'begun elsewhere');
  });

  it('knows whether jobs of other lanes wait', () => {
    const queue = new JobQueue<string>();
    queue.add('x', [lane('shop', 'a')]);
    assert.ok(!queue.hasOthersThan(lane('shop', 'a')));
    assert.ok(queue.hasOthersThan(lane('shop', 'b')));
    assert.ok(queue.hasOthersThan(lane('other', 'a')));
  });

  it('keeps nothing of removed jobs', () => {
    const queue = new JobQueue<string>();
    queue.add('x', [lane('a'), lane('b')]);
    queue.add('y', []);
    assert.ok(queue.remove('x'));
    assert.ok(!queue.remove('x'));
    queue.add('x', [lane('c')]);
    assert.deepEqual(drained(queue), ['y', 'x']);
    assert.equal(queue.size, 0);
    assert.ok(!queue.hasOthersThan(lane('d')));
    assert.deepEqual(queue.drain(), []);
  });

  it('gives each group that has jobs all the time its share, whatever jobs and callers the others have', () => {
    const GROUPS = ['a', 'b', 'c'];
    const MAX_COST = 50;
    const costs = fc.array(fc.integer({ min: 1, max: MAX_COST }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.tuple(costs, costs, costs), fc.integer({ min: 1, max: 4 }), (ofGroups, callers) => {
        const queue = new JobQueue<{ group: string; cost: number }>();
        const used = new Map(GROUPS.map((group) => [group, 0]));
        let added = 0;
        const add = (group: string) => {
          const own = ofGroups[GROUPS.indexOf(group)] ?? [];
          const cost = own[added++ % own.length] ?? 1;
          queue.add({ group, cost }, [lane(group, `caller ${added % callers}`)]);
        };
        for (const group of GROUPS) for (let count = 0; count < 1 + callers; count++) add(group);
        for (let turn = 0; turn < 300; turn++) {
          const next = queue.next();
          assert.ok(next !== undefined);
          const { item } = next;
          queue.charge(next.lane, item.cost);
          used.set(item.group, (used.get(item.group) ?? 0) + item.cost);
          add(item.group);
          const times = [...used.values()];
          assert.ok(Math.max(...times) - Math.min(...times) <= 2 * MAX_COST, times.join());
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe('lanes', () => {
  it('are those of a namespace for accounts, and those of an address for callers without an identity', () => {
    const account = 'spiffe://cluster.local/ns/shop/sa/web';
    assert.deepEqual(laneOf(account, 'shop'), { group: 'spiffe://cluster.local/ns/shop', caller: account });
    assert.deepEqual(laneOf('127.0.0.1', 'shop'), { group: '127.0.0.1', caller: 'shop' });
  });
});
