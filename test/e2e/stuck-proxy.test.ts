/**
 * An Envoy that is stopped for a while: others are served, it is disconnected, and it gets everything when it runs
 * again.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually } from '../harness/index.ts';
import { resource } from './support/config.ts';
import { type MeshProxy, syncStatus } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();

before(async () => {
  shared.set(await startVersionsMesh(owner, { flags: ['--keepaliveInterval', '1s', '--keepaliveTimeout', '1s'] }));
});

let edits = 0;

async function edit(): Promise<void> {
  const headers = { request: { set: { 'x-edit': String(++edits) } } };
  const route = [to(edits % 2 === 0 ? 'v1' : 'v2')];
  await shared
    .get()
    .config.apply('routes', resource('VirtualService', 'web', { hosts: ['web'], http: [{ headers, route }] }));
}

/** Waits until the latest edit has arrived. */
async function followedBy(...clients: readonly MeshProxy[]): Promise<void> {
  await eventuallyAll(clients, async (client) => {
    const { by, reply } = await call({ address: client.address, port: HTTP_PORT, host: 'web' });
    assert.deepEqual([by, reply?.headers['x-edit']], [edits % 2 === 0 ? 'web-v1' : 'web-v2', String(edits)]);
  });
}

for (const stuck of [0, 1])
  test(`one of the two Envoys stops and continues: that of ${['SotW', 'Delta'][stuck]}`, async (t) => {
    const { clients, discovery } = shared.get();
    const [victim, other] = [clients[stuck], clients[1 - stuck]];
    assert.ok(victim !== undefined && other !== undefined);
    await edit();
    await followedBy(victim, other);
    process.kill(victim.pid, 'SIGSTOP');
    t.after(() => process.kill(victim.pid, 'SIGCONT'));
    for (let count = 0; count < 5; count++) {
      await edit();
      await followedBy(other);
    }
    await eventually(async () => assert.deepEqual((await syncStatus(discovery())).length, 1), { timeoutMs: 30_000 });
    await edit();
    await followedBy(other);
    process.kill(victim.pid, 'SIGCONT');
    await followedBy(victim, other);
    await edit();
    await followedBy(victim, other);
  });
