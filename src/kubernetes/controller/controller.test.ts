/** Controllers by a clock that a test moves: what they reconcile, how often they write, and what waits after failures. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { TokenBucket } from '../../core/fairness/token-bucket.ts';
import type { Outcome } from '../../core/scheduling/work-queue.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { ApiError, ConnectionError } from '../api-error.ts';
import type { ConnectionObserver } from '../connection.ts';
import { Controller, type ControllerOptions } from './controller.ts';

const refusedBy = (code: number): ApiError => new ApiError({ code, reason: '', message: '' });
const LOST = new ConnectionError('away', true);

function controller(
  reconcile: (key: string, it: Controller) => Promise<Outcome>,
  options: Partial<ControllerOptions> = {},
) {
  const clock = fakeClock();
  const observers = new Set<ConnectionObserver>();
  const failures: string[] = [];
  const it: Controller = new Controller({
    connection: {
      clock,
      random: () => 0,
      observe: (observer) => {
        observers.add(observer);
        return () => observers.delete(observer);
      },
    },
    reconcile: (key) => reconcile(key, it),
    concurrency: 3,
    budget: { rate: 1000, burst: 1000 },
    onFailure: (key) => void failures.push(key),
    ...options,
  });
  const reached = (): void => {
    for (const observer of observers) observer.reached();
  };
  return { it, clock, failures, reached, observers };
}

describe('a controller', () => {
  test('writes no faster than its budget, and everything in the end', async () => {
    const written: string[] = [];
    const { it, clock } = controller(
      async (key, self) => {
        await self.mayWrite();
        written.push(key);
        return 'done';
      },
      { budget: { rate: 2, burst: 4 } },
    );
    it.addAll(Array.from({ length: 20 }, (_, index) => `key-${index}`));
    await clock.advance(0);
    assert.equal(written.length, 4);
    await clock.advance(3000);
    assert.equal(written.length, 10);
    await clock.advance(60_000);
    assert.equal(new Set(written).size, 20);
    await it.close();
  });

  test('writes no faster than a budget that it shares, and serves lanes in turn', async () => {
    const clock = fakeClock();
    const budget = new TokenBucket({ rate: 2, burst: 4, now: clock.now });
    const written: string[] = [];
    const write = async (key: string, self: Controller): Promise<Outcome> => {
      await self.mayWrite();
      written.push(key);
      return 'done';
    };
    const options = { connection: { clock, random: () => 0, observe: () => () => {} }, budget, concurrency: 1 };
    const laneOf = (key: string): string => key.slice(0, 1);
    const [first, second] = [controller(write, { ...options, laneOf }), controller(write, options)];
    first.it.addAll(['a1', 'a2', 'a3', 'a4', 'a5', 'b1']);
    second.it.addAll(['x1', 'x2']);
    await clock.advance(2000);
    assert.equal(written.length, 8);
    assert.ok(written.indexOf('b1') < written.indexOf('a3'), written.join());
    await Promise.all([first.it.close(), second.it.close()]);
  });

  test('repeats the same write some times at once and then seldom; another content is written at once', async () => {
    const written: string[] = [];
    let content = 'one';
    const { it, clock } = controller(async (key, self) => {
      const wait = self.repair(key, content);
      if (wait > 0) return wait;
      written.push(content);
      return 'done';
    });
    // Another program undoes each write.
    const fight = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second++) {
        it.add('a');
        await clock.advance(1000);
      }
    };
    await fight(300);
    assert.ok(written.length >= 5 && written.length <= 5 + 300 / 30 + 1, `${written.length} writes`);
    content = 'two';
    written.length = 0;
    it.add('a');
    await clock.advance(0);
    assert.deepEqual(written, ['two']);
    await it.close();
  });

  test('another content that came while the key was reconciled is written at once', async () => {
    const written: string[] = [];
    let [content, next] = ['one', ''];
    const { it, clock } = controller(async (key, self) => {
      const wait = self.repair(key, content);
      if (wait === 0) written.push(content);
      else if (next !== '') {
        // The change comes after its content was read.
        [content, next] = [next, ''];
        self.add(key);
      }
      return wait > 0 ? wait : 'done';
    });
    for (let time = 0; time < 6; time++) {
      it.add('a');
      await clock.advance(0);
    }
    [next, written.length] = ['two', 0];
    it.add('a');
    await clock.advance(0);
    assert.deepEqual(written, ['two']);
    await it.close();
  });

  test('a failure is waited for, also after a repetition had to wait', async () => {
    let [attempts, isRefused] = [0, false];
    const { it, clock } = controller(async (key, self) => {
      attempts++;
      const wait = self.repair(key, 'content');
      if (isRefused) throw refusedBy(422);
      return wait > 0 ? wait : 'done';
    });
    for (let time = 0; time < 6; time++) {
      it.add('a');
      await clock.advance(0);
    }
    isRefused = true;
    it.add('a');
    await clock.advance(0);
    assert.equal(attempts, 7);
    it.add('a');
    await clock.advance(0);
    assert.equal(attempts, 7);
    await it.close();
  });

  test('a failure of the server makes all keys of the group wait, and those of other groups do not', async () => {
    const tried: string[] = [];
    const { it, clock, failures } = controller(
      async (key) => {
        tried.push(key);
        if (key.startsWith('x')) throw refusedBy(503);
        return 'done';
      },
      { groupOf: (key) => key.slice(0, 1), concurrency: 1 },
    );
    it.addAll(['x1', 'x2', 'x3', 'y1']);
    await clock.advance(500);
    assert.deepEqual(tried, ['x1', 'y1']);
    await clock.advance(60_000);
    // With pauses of 1, 2, 4, 8, 16 and 32 s, in each of which one key is tried.
    assert.ok(tried.length <= 10, tried.join());
    assert.equal(failures.length, tried.length - 1);
    await it.close();
  });

  test('an object that is refused keeps no other from being written', async () => {
    const done: string[] = [];
    const { it, clock } = controller(async (key) => {
      if (key === 'bad') throw refusedBy(422);
      done.push(key);
      return 'done';
    });
    it.addAll(['bad', 'a', 'b']);
    await clock.advance(0);
    assert.deepEqual(done, ['a', 'b']);
    await it.close();
  });

  test('work that failed because of a lost connection is retried as soon as the server is reached', async () => {
    let isAway = true;
    const done: string[] = [];
    const { it, clock, failures, reached } = controller(async (key) => {
      if (isAway) throw LOST;
      done.push(key);
      return 'done';
    });
    it.addAll(['a', 'b', 'c', 'd']);
    // Until their delays are long.
    await clock.advance(40_000);
    isAway = false;
    reached();
    await clock.advance(0);
    assert.deepEqual(done.sort(), ['a', 'b', 'c', 'd']);
    assert.deepEqual(failures, []);
    await it.close();
  });

  test('writes nothing after it was closed, and observes nothing', async () => {
    const written: string[] = [];
    const { it, clock, observers } = controller(
      async (key, self) => {
        await self.mayWrite();
        written.push(key);
        return 'done';
      },
      { budget: { rate: 1, burst: 1 } },
    );
    it.addAll(['a', 'b', 'c']);
    await clock.advance(0);
    await it.close();
    await clock.advance(60_000);
    assert.deepEqual(written, ['a']);
    assert.equal(observers.size, 0);
  });
});

/** A generator of numbers 0 ≤ x < 1 that a seed determines. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

for (let seed = 1; seed <= 20; seed++) {
  test(`whatever fails and changes meanwhile, each key ends in its newest state (seed ${seed})`, async () => {
    const random = seeded(seed);
    const keys = Array.from({ length: 8 }, (_, index) => `key-${index}`);
    const desired = new Map(keys.map((key) => [key, 0]));
    const actual = new Map<string, number>();
    const running = new Set<string>();
    const errors = [LOST, refusedBy(503), refusedBy(409), refusedBy(429), refusedBy(422), new Error('odd')];
    let isFailing = true;
    const { it, clock, reached } = controller(async (key, self) => {
      assert.ok(!running.has(key), `${key} is reconciled once at a time`);
      running.add(key);
      assert.ok(running.size <= 3);
      try {
        const wanted = desired.get(key) ?? 0;
        const wait = self.repair(key, String(wanted));
        if (wait > 0) return wait;
        await self.mayWrite();
        await Promise.resolve();
        if (isFailing && random() < 0.4) throw errors[Math.floor(random() * errors.length)];
        actual.set(key, wanted);
        return 'done';
      } finally {
        running.delete(key);
      }
    });
    for (let step = 0; step < 200; step++) {
      const key = keys[Math.floor(random() * keys.length)] ?? '';
      desired.set(key, (desired.get(key) ?? 0) + 1);
      it.add(key);
      if (random() < 0.1) reached();
      await clock.advance(Math.floor(random() * 400));
    }
    isFailing = false;
    it.addAll(keys);
    await clock.advance(180_000);
    assert.deepEqual(actual, new Map(keys.map((key) => [key, desired.get(key)])));
    await it.close();
  });
}
