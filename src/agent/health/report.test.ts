import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import type { WorkloadHealth } from '../xds-proxy/index.ts';
import { startHealthReports } from './report.ts';
import { parseWorkloadProbe } from './workload-probe.ts';

function connection(reports: WorkloadHealth[]) {
  let uses = 0;
  const get = async () => {
    uses++;
    return { reportHealth: (health: WorkloadHealth) => void reports.push(health) };
  };
  return { get, uses: () => uses };
}

test('a workload that drains is reported unhealthy', async () => {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const reports: WorkloadHealth[] = [];
  const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const sleep = () => new Promise((resolve) => setImmediate(resolve));
  const deps = { connection: connection(reports), proxy: async () => undefined, sleep, log: quiet };
  const health = await startHealthReports(parseWorkloadProbe({ tcpSocket: { port } }, '127.0.0.1'), deps);
  await waitUntil(() => reports.length === 1);
  health.draining();
  assert.deepEqual(reports, [
    { healthy: true, message: '' },
    { healthy: false, message: 'the proxy is draining' },
  ]);
  health.close();
  server.close();
});

test('an agent without a probe opens no connection', async () => {
  const unused = connection([]);
  const sleep = async () => {};
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const health = await startHealthReports(undefined, { connection: unused, proxy: async () => undefined, sleep, log });
  health.draining();
  health.close();
  assert.equal(unused.uses(), 0);
});
