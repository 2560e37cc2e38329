import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { isLoopback, startStatusServers } from './server.ts';

const deps = {
  readiness: { check: async () => undefined, restarted: () => undefined, draining: () => undefined },
  probes: new Map(),
  serveMetrics: async () => undefined,
  quit: () => undefined,
};

test('only loopback addresses are loopback', () => {
  for (const yes of ['127.0.0.1', '127.8.9.1', '::1', '::ffff:127.0.0.1']) assert.ok(isLoopback(yes), yes);
  for (const no of [undefined, '', '10.0.0.1', '::ffff:10.0.0.1', '::', '1127.0.0.1', '127.0.0.1.example'])
    assert.ok(!isLoopback(no), no);
});

test('a port that is taken is said in one line, and the other port is let go', async () => {
  const other = createServer().listen(0);
  await once(other, 'listening');
  const taken = (other.address() as AddressInfo).port;
  const free = createServer().listen(0);
  await once(free, 'listening');
  const status = (free.address() as AddressInfo).port;
  free.close();
  await once(free, 'close');
  await assert.rejects(startStatusServers({ status, readiness: taken }, deps), {
    code: 'failed_precondition',
    message: `cannot listen on port ${taken}: EADDRINUSE`,
  });
  other.close();
  const servers = await startStatusServers({ status, readiness: taken }, deps);
  const answer = async (port: number, path: string, method = 'GET') =>
    (await fetch(`http://127.0.0.1:${port}${path}`, { method })).status;
  assert.equal(await answer(status, '/healthz/ready'), 200);
  assert.equal(await answer(taken, '/healthz/ready'), 200);
  assert.equal(await answer(taken, '/healthz/ready', 'DELETE'), 405);
  assert.equal(await answer(taken, '/stats/prometheus'), 404);
  await servers.close();
  await assert.rejects(answer(status, '/healthz/ready'));
});
