/** When what a server refused is tried again: probes are counted by a clock that a test moves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../core/testing/fake-clock.ts';
import { Retries } from './retries.ts';

/** Watches that fail at every attempt until `back`; each waits for its own delay of 30 s at most. */
function server(watches: number, { minimumMs = 0 } = {}) {
  const clock = fakeClock();
  const retries = new Retries({ clock, random: () => 0 });
  const ending = new AbortController();
  const attempts = new Map<number, number>();
  let isBack = false;
  const served = new Map<number, number>();
  const follow = async (watch: number): Promise<void> => {
    while (!ending.signal.aborted) {
      await retries.wait(30_000, minimumMs, ending.signal);
      if (ending.signal.aborted) return;
      attempts.set(watch, (attempts.get(watch) ?? 0) + 1);
      if (!isBack) continue;
      served.set(watch, clock.now());
      retries.succeeded();
      return;
    }
  };
  const following = Array.from({ length: watches }, (_, watch) => follow(watch));
  const total = () => attempts.values().reduce((sum, each) => sum + each, 0);
  const end = async (): Promise<void> => {
    ending.abort();
    await Promise.all(following);
  };
  const back = (): void => {
    isBack = true;
  };
  return { clock, attempts, served, total, back, end };
}

for (const away of [5, 20, 40]) {
  test(`a server that is back after ${away} s is used within a second, by all watches`, async () => {
    const it = server(50);
    await it.clock.advance(away * 1000 + 1);
    it.back();
    const before = it.clock.now();
    await it.clock.advance(1000);
    assert.equal(it.served.size, 50);
    assert.ok([...it.served.values()].every((at) => at - before <= 1000));
    await it.end();
  });
}

test('watches that wait take turns as the probe, one a second', async () => {
  const it = server(5);
  await it.clock.advance(20_500);
  assert.equal(it.total(), 20);
  assert.deepEqual([...it.attempts.values()], [4, 4, 4, 4, 4]);
  await it.end();
});

test('after a minute of failures, probes are made every five seconds', async () => {
  const it = server(1);
  await it.clock.advance(60_500);
  assert.equal(it.total(), 60);
  await it.clock.advance(60_000);
  assert.equal(it.total(), 72);
  await it.end();
});

test('nothing is tried before the server allows it', async () => {
  const it = server(3, { minimumMs: 10_000 });
  await it.clock.advance(9_900);
  assert.equal(it.total(), 0);
  await it.clock.advance(200);
  assert.equal(it.total(), 1);
  await it.end();
});

test('nothing runs while nothing waits', async () => {
  const it = server(2);
  await it.clock.advance(2_500);
  await it.end();
  await it.clock.advance(2_000);
  assert.deepEqual(it.clock.pending(), []);
});
