/** Connections that reach their maximum age all the time: proxies reconnect and lose nothing. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually } from '../harness/index.ts';
import { resource } from './support/config.ts';
import type { MeshProxy } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();

/** The number of connections that each proxy has to make. */
const LIVES = 6;

before(async () => {
  shared.set(await startVersionsMesh(owner, { flags: ['--keepaliveMaxServerConnectionAge', '1s'] }));
});

/** Connections of an Envoy to discovery, and updates that it has accepted or rejected. */
async function seen(client: MeshProxy): Promise<{ readonly connections: number; readonly rejected: number }> {
  const stats = Object.entries(await client.stats('upstream_cx_total$|update_rejected$'));
  const sum = (suffix: RegExp) => stats.reduce((all, [name, value]) => all + (suffix.test(name) ? value : 0), 0);
  return {
    connections: sum(/^cluster\.(?!outbound|inbound).*xds.*upstream_cx_total$/),
    rejected: sum(/update_rejected$/),
  };
}

test('proxies whose connections reach their maximum age answer every request and follow every edit', async () => {
  const { clients, config } = shared.get();
  const target = (client: MeshProxy) => ({ address: client.address, port: HTTP_PORT, host: 'web' });
  const traffic = startTraffic(clients.map(target));
  for (let edit = 1; edit <= 2 * LIVES; edit++) {
    const headers = { request: { set: { 'x-edit': String(edit) } } };
    const subset = edit % 2 === 0 ? 'v1' : 'v2';
    await config.apply(
      'routes',
      resource('VirtualService', 'web', { hosts: ['web'], http: [{ headers, route: [to(subset)] }] }),
    );
    await eventuallyAll(clients, async (client) => {
      const { by, reply } = await call(target(client));
      assert.deepEqual([by, reply?.headers['x-edit']], [`web-${subset}`, String(edit)]);
    });
  }
  for (const client of clients)
    await eventually(
      async () => {
        const { connections } = await seen(client);
        assert.ok(connections >= LIVES, `${client.mode}: ${connections} connections`);
      },
      { timeoutMs: 60_000 },
    );
  assert.deepEqual(await traffic.stop(), []);
  for (const client of clients) assert.equal((await seen(client)).rejected, 0, client.mode);
});
