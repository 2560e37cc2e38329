import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import { openMemoryQuota } from './memory-quota.ts';
import { CALL, quota, type TestHost, testHost } from './testing/host.ts';
import type { RunningHandler } from './types.ts';

function open(host: TestHost, maxAmount = 2, memory = new FairLimiter(64 * 1024 * 1024)): RunningHandler {
  const overrides = [{ dimensions: new Map([['user', 'ann']]), maxAmount: 3, validDurationMs: 1_000 }];
  const quotas = [{ name: 'requests.instance.shop', maxAmount, validDurationMs: 1_000, overrides }];
  return openMemoryQuota({ quotas, minDeduplicationDurationMs: 1 }, host, (bytes) => memory.enter('shop', bytes));
}

async function granted(handler: RunningHandler, times: number, dimensions = {}): Promise<number> {
  let sum = 0;
  for (let count = 0; count < times; count++) {
    const result = await handler.quota?.(quota('requests', dimensions), CALL);
    if (result?.status.code === 0) sum++;
    else assert.equal(result?.status.code, 8);
  }
  return sum;
}

test('a window grants its amount, and units return as it moves', async () => {
  const host = testHost();
  const handler = open(host);
  assert.equal(await granted(handler, 5), 2);
  host.advance(400);
  assert.equal(await granted(handler, 5), 0);
  host.advance(650);
  assert.equal(await granted(handler, 5), 2);
});

test('units return one by one, in the order in which they were taken', async () => {
  const host = testHost();
  const handler = open(host);
  assert.equal(await granted(handler, 1), 1);
  host.advance(500);
  assert.equal(await granted(handler, 1), 1);
  host.advance(550);
  assert.equal(await granted(handler, 5), 1);
});

test('each combination of dimensions has a window, and overrides have their own amounts', async () => {
  const handler = open(testHost());
  assert.equal(await granted(handler, 5, { user: 'bob' }), 2);
  assert.equal(await granted(handler, 5, { user: 'eve' }), 2);
  assert.equal(await granted(handler, 5, { user: 'ann' }), 3);
});

test('invented dimensions neither fill the memory nor make the handler forget', async () => {
  const handler = open(testHost());
  assert.equal(await granted(handler, 2, { user: 'bob' }), 2);
  let sum = 0;
  for (let number = 0; number < 21_000; number++) sum += await granted(handler, 1, { user: `u${number}` });
  // Those beyond the limit of counters share one.
  assert.ok(sum < 20_010, String(sum));
  assert.equal(await granted(handler, 2, { user: 'bob' }), 0);
});

test('keys of all handlers of a namespace share memory, which unused and closed counters return', async () => {
  const host = testHost();
  const memory = new FairLimiter(1024 * 1024);
  const handlers = [open(host, 2, memory), open(host, 2, memory)];
  let sum = 0;
  for (const handler of handlers)
    for (let number = 0; number < 500; number++)
      sum += await granted(handler, 1, { user: `${number}${'x'.repeat(2_000)}` });
  // Each counter has about 4.5 KiB of 512; those without memory share two of their handler.
  assert.ok(sum > 100 && sum < 130, String(sum));
  host.advance(11_000);
  assert.equal(memory.size, 0);
  assert.equal(await granted(handlers[0] ?? assert.fail(), 2, { user: 'bob' }), 2);
  assert.ok(memory.size > 0);
  for (const handler of handlers) await handler.close();
  assert.equal(memory.size, 0);
});

test('a quota that the handler does not have is not granted', () => {
  const handler = open(testHost());
  assert.throws(() => handler.quota?.(quota('other'), CALL), /no quota other.instance.shop/);
});

test('the loop ends with the handler', async () => {
  const host = testHost();
  const handler = open(host);
  assert.deepEqual([handler.daemons, host.loops], [1, 1]);
  await handler.close();
  assert.equal(host.loops, 0);
});
