import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FairQueue } from './fair-queue.ts';

function drained<T>(queue: FairQueue<T>): T[] {
  const items: T[] = [];
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) items.push(item);
  return items;
}

describe('fair queue', () => {
  it('serves callers round-robin, and the items of one caller in order', () => {
    const queue = new FairQueue<string>();
    for (const item of ['a1', 'a2', 'a3']) queue.add(item, ['a']);
    for (const item of ['b1', 'b2']) queue.add(item, ['b']);
    queue.add('c1', ['c']);
    assert.deepEqual(drained(queue), ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  it('serves an item of several callers once, at the first of their turns', () => {
    const queue = new FairQueue<string>();
    for (let index = 0; index < 1000; index++) queue.add(`a${index}`, ['a']);
    queue.add('shared', ['a', 'b']);
    assert.equal(queue.size, 1001);
    assert.deepEqual([queue.shift(), queue.shift(), queue.shift()], ['a0', 'shared', 'a1']);
    assert.ok(!drained(queue).includes('shared'));
  });

  it('keeps nothing of removed items', () => {
    const queue = new FairQueue<string>();
    queue.add('x', ['a', 'b']);
    queue.add('y', []);
    assert.ok(queue.remove('x'));
    assert.ok(!queue.remove('x'));
    queue.add('x', ['c']);
    assert.deepEqual(drained(queue), ['y', 'x']);
    assert.equal(queue.size, 0);
    assert.equal(queue.shift(), undefined);
  });
});
