import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type WaitDeps, waitUntilReady } from './wait.ts';

const OPTIONS = { url: 'http://localhost:15021/healthz/ready', timeoutMs: 2000, periodMs: 500, requestTimeoutMs: 300 };

/** A proxy that answers each probe by the next of `answers` (the last one for ever), on a clock of its own. */
function proxy(answers: readonly (number | Error)[], probeMs = 0) {
  let time = 0;
  const timeouts: number[] = [];
  const deps: WaitDeps = {
    now: () => time,
    sleep: (ms) => {
      time += ms;
      return Promise.resolve();
    },
    probe: (_url, timeoutMs) => {
      const answer = answers[Math.min(timeouts.length, answers.length - 1)] ?? 0;
      timeouts.push(timeoutMs);
      time += Math.min(probeMs, timeoutMs);
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
  };
  return { deps, timeouts, elapsed: () => time };
}

test('a ready proxy ends the waiting at once', async () => {
  const { deps, elapsed } = proxy([200]);
  await waitUntilReady(OPTIONS, deps, () => assert.fail('it was ready'));
  assert.equal(elapsed(), 0);
});

test('it calls every period until the status is 200, and reports why it waits', async () => {
  const { deps, elapsed } = proxy([new Error('connect ECONNREFUSED'), 503, 200]);
  const reasons: string[] = [];
  await waitUntilReady(OPTIONS, deps, (why) => reasons.push(why));
  assert.deepEqual(reasons, ['connect ECONNREFUSED', 'status 503']);
  assert.equal(elapsed(), 1000);
});

test('it fails with the last reason when the timeout has passed', async () => {
  const { deps, elapsed } = proxy([new Error('refused'), 503]);
  await assert.rejects(
    waitUntilReady(OPTIONS, deps, () => {}),
    /the proxy was not ready within 2 seconds: status 503/,
  );
  assert.ok(elapsed() <= 2000);
});

test('no request takes longer than the timeout', async () => {
  const { deps, timeouts, elapsed } = proxy([503], 10_000);
  await assert.rejects(waitUntilReady({ ...OPTIONS, timeoutMs: 1000 }, deps, () => {}));
  assert.ok(elapsed() <= 1000, `waited ${elapsed()}`);
  assert.ok(timeouts.every((timeout) => timeout >= 1 && timeout <= 300));
});

test('a timeout of 0 means one call with the timeout of a request', async () => {
  const { deps, timeouts } = proxy([200]);
  await waitUntilReady({ ...OPTIONS, timeoutMs: 0 }, deps, () => assert.fail('it was ready'));
  assert.deepEqual(timeouts, [300]);
  const away = proxy([503]);
  await assert.rejects(
    waitUntilReady({ ...OPTIONS, timeoutMs: 0 }, away.deps, () => {}),
    /within 0 seconds: status 503/,
  );
  assert.equal(away.timeouts.length, 1);
});
