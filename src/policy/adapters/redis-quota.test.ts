import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import type { RedisQuotaParams } from '../types.ts';
import { openRedisQuota } from './redis-quota.ts';
import { CALL, quota, testHost } from './testing/host.ts';

test('handlers of two namespaces have counters of their own (a stand-in for Redis that keeps keys)', async (t) => {
  const keys: string[] = [];
  const server = createServer((socket) => {
    socket.on('data', (bytes) => {
      for (const [key] of bytes.toString().matchAll(/mesh-quota:[^\r]*/g)) {
        keys.push(key);
        socket.write(':1\r\n');
      }
    });
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  for (const algorithm of ['FIXED_WINDOW', 'ROLLING_WINDOW'] as const) {
    const params: RedisQuotaParams = {
      redisServerUrl: `127.0.0.1:${port}`,
      connectionPoolSize: 1,
      quotas: [
        {
          name: 'requests.instance.shop',
          maxAmount: 5,
          validDurationMs: 1000,
          bucketDurationMs: 100,
          rateLimitAlgorithm: algorithm,
          overrides: [],
        },
      ],
    };
    for (const id of ['quotas.shop', 'quotas.pay']) {
      const handler = openRedisQuota(id, params, testHost());
      assert.equal((await handler.quota?.(quota('requests', { user: 'ann' }), CALL))?.status.code, 0);
      await handler.close();
    }
  }
  const key = (algorithm: string, id: string) =>
    `mesh-quota:${algorithm}:${id}:["requests.instance.shop",["user","ann"]]`;
  assert.deepEqual(keys, [
    key('fixed', 'quotas.shop'),
    key('fixed', 'quotas.pay'),
    key('rolling', 'quotas.shop'),
    key('rolling', 'quotas.pay'),
  ]);
});
