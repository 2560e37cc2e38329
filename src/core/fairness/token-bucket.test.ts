import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TokenBucket } from './token-bucket.ts';

test('allows the burst at once, then the rate', () => {
  let now = 0;
  const bucket = new TokenBucket({ rate: 10, burst: 2, now: () => now });
  assert.deepEqual([bucket.take(), bucket.take(), bucket.take()], [0, 0, 100]);
  now = 60;
  assert.equal(bucket.take(), 40);
  now = 100;
  assert.deepEqual([bucket.take(), bucket.take()], [0, 100]);
});

test('saves no more than the burst in quiet times', () => {
  let now = 0;
  const bucket = new TokenBucket({ rate: 10, burst: 2, now: () => now });
  now = 3_600_000;
  assert.deepEqual([bucket.take(), bucket.take(), bucket.take()], [0, 0, 100]);
});

test('with a burst below one allows one at a time; with a rate of 0 none after the burst', () => {
  const one = new TokenBucket({ rate: 1, burst: 0, now: () => 0 });
  assert.deepEqual([one.take(), one.take()], [0, 1000]);
  const none = new TokenBucket({ rate: 0, burst: 1, now: () => 0 });
  assert.deepEqual([none.take(), none.take()], [0, Number.POSITIVE_INFINITY]);
});

test('tokens spent beyond those available are a debt, which delays later requests', () => {
  let now = 0;
  const bucket = new TokenBucket({ rate: 10, burst: 2, now: () => now });
  assert.deepEqual([bucket.spend(2), bucket.spend(1), bucket.spend(1)], [0, 100, 200]);
  now = 150;
  assert.equal(bucket.spend(0), 50);
  assert.equal(bucket.take(), 150);
  now = 200;
  assert.equal(bucket.spend(0), 0);
});
