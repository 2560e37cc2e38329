import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../testing/properties.ts';
import { TimeFairQueue } from './time-fair-queue.ts';
import { TimeShares } from './time-shares.ts';

/** A queue of items named `<caller><number>`, and what serving each costs, ms. */
class Served {
  readonly shares = new TimeShares();
  readonly queue = new TimeFairQueue<string>(this.shares);
  readonly #cost: (caller: string) => number;

  constructor(cost: (caller: string) => number = () => 1) {
    this.#cost = cost;
  }

  add(caller: string, ...numbers: readonly number[]): void {
    for (const number of numbers) this.queue.add(caller, `${caller}${number}`);
  }

  next(): string | undefined {
    const item = this.queue.next();
    if (item !== undefined) this.shares.charge(item.charAt(0), this.#cost(item.charAt(0)));
    return item;
  }

  take(count: number): (string | undefined)[] {
    return Array.from({ length: count }, () => this.next());
  }
}

describe('a queue that is fair in time', () => {
  it('serves callers with equal costs in turn, each in its order', () => {
    const served = new Served();
    served.add('a', 1, 2, 3, 4);
    served.add('b', 1);
    served.add('c', 1, 2);
    assert.deepEqual(served.take(8), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3', 'a4', undefined]);
    assert.equal(served.queue.size, 0);
  });

  it('serves a caller with expensive items less often', () => {
    const served = new Served((caller) => (caller === 'a' ? 4 : 1));
    served.add('a', 1, 2, 3);
    served.add('b', 1, 2, 3, 4, 5, 6, 7, 8);
    assert.deepEqual(served.take(11), ['a1', 'b1', 'b2', 'b3', 'b4', 'a2', 'b5', 'b6', 'b7', 'b8', 'a3']);
  });

  it('counts time that was used elsewhere, even while the caller waits', () => {
    const served = new Served();
    served.shares.charge('a', 2.5);
    served.add('a', 1);
    served.add('b', 1, 2, 3, 4);
    served.add('c', 1);
    served.shares.charge('c', 10);
    assert.deepEqual(served.take(6), ['b1', 'b2', 'b3', 'a1', 'b4', 'c1']);
  });

  it('gives no credit for idle time: a caller that comes later begins as the others are', () => {
    const served = new Served();
    served.add('a', ...Array.from({ length: 100 }, (_, index) => index));
    served.take(50);
    served.add('b', 1, 2, 3, 4);
    const order = served.take(8).map((item) => item?.charAt(0));
    assert.deepEqual(order.filter((caller) => caller === 'b').length, 4);
    assert.ok(order.slice(0, 4).includes('a'), order.join(' '));
  });

  it('with a quantum, goes on with a caller until it has used that, then with one whose turn has begun', () => {
    const shares = new TimeShares(4);
    const queue = new TimeFairQueue<string>(shares);
    const next = (cost = 1): string | undefined => {
      const item = queue.next();
      if (item !== undefined) shares.charge(item.charAt(0), cost);
      return item;
    };
    for (const item of ['a1', 'b1', 'c1', 'a2', 'a3', 'b2', 'a4', 'a5']) queue.add(item.charAt(0), item);
    assert.deepEqual([next(), next(), next(), next()], ['a1', 'a2', 'a3', 'a4']);
    assert.deepEqual([next(3), next(3), next(), next()], ['b1', 'b2', 'c1', 'a5']);
    // The virtual time has moved on to 4 ms: b has used 6 ms and goes on, c begins anew.
    queue.add('d', 'd1');
    queue.add('c', 'c2');
    queue.add('b', 'b3');
    assert.deepEqual([next(), next(), next(), next()], ['b3', 'd1', 'c2', undefined]);
  });

  it('waits once for an item, and forgets one that is removed', () => {
    const served = new Served();
    served.add('a', 1, 1, 2);
    assert.equal(served.queue.size, 2);
    served.queue.remove('a', 'a1');
    served.queue.remove('a', 'a1');
    served.queue.remove('b', 'b1');
    assert.equal(served.queue.size, 1);
    assert.deepEqual(served.take(2), ['a2', undefined]);
    served.add('a', 3);
    assert.deepEqual(served.take(2), ['a3', undefined]);
  });

  it('passes over callers that may not be served: they keep their places, and no debt is forgiven', () => {
    const served = new Served();
    served.shares.charge('h', 1000);
    served.add('h', 1, 2);
    const other = new TimeFairQueue<string>(served.shares);
    assert.equal(
      other.next(() => true),
      undefined,
    );
    other.add('h', 'h0');
    assert.equal(
      other.next(() => false),
      undefined,
    );
    assert.equal(other.size, 1);
    served.add('a', 1, 2, 3);
    assert.deepEqual(served.take(3), ['a1', 'a2', 'a3'], 'the caller with a debt was only looked at');
    other.add('b', 'b1');
    assert.equal(other.next(), 'b1');
    other.retry();
    assert.equal(other.next(), 'h0');
  });

  it('serves callers that were passed over before those that came later, and asks once for each until it retries', () => {
    const { queue, shares } = new Served();
    const blocked = Array.from({ length: 100 }, (_, index) => `blocked ${index}`);
    for (const caller of blocked) queue.add(caller, caller);
    let asked = 0;
    for (let count = 0; count < 100; count++) {
      const caller = `new ${count}`;
      queue.add(caller, caller);
      assert.equal(
        queue.next((item) => {
          asked++;
          return !item.startsWith('blocked');
        }),
        caller,
      );
      shares.charge(caller, 5);
    }
    assert.equal(asked, 200);
    queue.add('last', 'last');
    queue.retry();
    assert.deepEqual(
      blocked.map(() => queue.next()),
      blocked,
    );
    assert.equal(queue.next(), 'last');
  });

  it('serves a caller that has used much, although there is always a new one that waits', () => {
    for (const quantum of [0, 8]) {
      const shares = new TimeShares(quantum);
      const queue = new TimeFairQueue<string>(shares);
      shares.charge('a', 20);
      queue.add('a', 'a');
      queue.add('first', 'first');
      let served = 0;
      for (let item: string | undefined = ''; item !== 'a' && served < 1000; served++) {
        queue.add(`new ${served}`, `new ${served}`);
        item = queue.next();
        shares.charge(item ?? '', 1);
      }
      assert.ok(served < 1000, `quantum ${quantum}`);
    }
  });

  it('loses nothing, keeps the order of each caller, and lets no caller exceed its share of time', () => {
    const caller = fc.constantFrom('a', 'b', 'c', 'd');
    const step = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), caller }),
      fc.record({ kind: fc.constant('next' as const), cost: fc.integer({ min: 1, max: 20 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), fc.constantFrom(0, 8, 50), (steps, quantum) => {
        const shares = new TimeShares(quantum);
        const queue = new TimeFairQueue<{ readonly caller: string; readonly number: number }>(shares);
        const added = new Map<string, number>();
        const served = new Map<string, number>();
        /** Time of each caller since the one in the key began to wait. */
        const since = new Map<string, Map<string, number>>();
        const waiting = (name: string): number => (added.get(name) ?? 0) - (served.get(name) ?? 0);
        const serve = (cost: number): void => {
          const item = queue.next();
          if (item === undefined) {
            for (const name of added.keys()) assert.equal(waiting(name), 0, 'an item was lost');
            return;
          }
          assert.equal(item.number, served.get(item.caller) ?? 0, 'the order of a caller changed');
          served.set(item.caller, item.number + 1);
          shares.charge(item.caller, cost);
          for (const used of since.values()) used.set(item.caller, (used.get(item.caller) ?? 0) + cost);
          if (waiting(item.caller) === 0) since.delete(item.caller);
          // Two items: one was served before, the other is not interrupted. And a quantum of each.
          for (const [name, used] of since)
            for (const [other, time] of used)
              assert.ok(
                time <= (used.get(name) ?? 0) + 2 * (20 + quantum),
                `${other} used ${time} ms while ${name} waited`,
              );
        };
        for (const next of steps) {
          if (next.kind === 'next') {
            serve(next.cost);
            continue;
          }
          const number = added.get(next.caller) ?? 0;
          if (waiting(next.caller) === 0) since.set(next.caller, new Map());
          added.set(next.caller, number + 1);
          queue.add(next.caller, { caller: next.caller, number });
        }
        while (queue.size > 0) serve(20);
        serve(1);
      }),
      { numRuns: 300 },
    );
  });

  it('remembers a bounded number of callers, those that have used the most time', () => {
    const shares = new TimeShares();
    shares.charge('heavy', 1000);
    for (let index = 0; index < 100_000; index++) shares.charge(`light ${index}`, 0.5);
    assert.equal(shares.usedBy('heavy'), 1000);
    assert.equal(shares.usedBy('light 0'), 0);
  });
});
