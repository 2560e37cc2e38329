import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createMetrics } from '../../observe/index.ts';
import { countedFetch } from './outgoing.ts';

test('outgoing requests, failures, retries and their latency are counted', async () => {
  const metrics = createMetrics(new Registry());
  let now = 0;
  const answers = [500, undefined, 200, 200, 302];
  const counted = countedFetch(
    () => {
      now += 25;
      const status = answers.shift();
      return status === undefined
        ? Promise.reject(new Error('refused'))
        : Promise.resolve(new Response('', { status }));
    },
    metrics,
    () => now,
  );
  assert.equal((await counted('https://one/', {})).status, 500);
  await assert.rejects(counted('https://one/', {}), /refused/);
  await counted('https://two/', {});
  await counted('https://one/', {});
  await counted('https://one/', {});
  const value = async (metric: { get(): Promise<{ values: readonly { value: number }[] }> }) =>
    (await metric.get()).values[0]?.value;
  assert.deepEqual(
    [
      await value(metrics.num_outgoing_requests),
      await value(metrics.num_failed_outgoing_requests),
      await value(metrics.num_outgoing_retries),
      await value(metrics.outgoing_latency),
    ],
    [5, 2, 2, 125],
  );
});
