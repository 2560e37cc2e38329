/** Several replicas of ctl-discovery: any of them continues any proxy, and none is missed when it ends. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Balancer, type Discovery, eventually, startBalancer } from '../harness/index.ts';
import { endpoints, resource, service } from './support/config.ts';
import { type MeshProxy, waitSynced } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const balanced = lazy<Balancer>();
/** The replica that read every change since the first, and one that was started after them. */
const replicas = lazy<{ readonly old: Discovery; readonly young: Discovery }>();

const HTTP = [{ name: 'http', port: HTTP_PORT }];
const target = (client: MeshProxy, host = 'web') => ({ address: client.address, port: HTTP_PORT, host });
const targets = () => shared.get().clients.map((client) => target(client));

let edits = 0;

/** Routes everything to one version, and waits until both clients have the edit. */
async function routeTo(subset: string): Promise<void> {
  const { config, clients } = shared.get();
  const headers = { request: { set: { 'x-edit': String(++edits) } } };
  const route = { hosts: ['web'], http: [{ headers, route: [to(subset)] }] };
  await config.apply('routes', resource('VirtualService', 'web', route));
  await eventuallyAll(clients, async (client) => {
    const { by, reply } = await call(target(client));
    assert.deepEqual([by, reply?.headers['x-edit']], [`web-${subset}`, String(edits)]);
  });
}

/** Waits until a replica serves every client, with all subscriptions. */
async function waitServedBy(replica: Discovery): Promise<void> {
  await eventually(
    async () => {
      const { clients } = (await replica.http('/debug/adsz')).json() as {
        clients: { proxy: string; watches: Record<string, { subscribed: unknown }> }[];
      };
      for (const { id } of shared.get().clients) {
        const watches = clients.find(({ proxy }) => proxy === id)?.watches ?? {};
        const watched = Object.values(watches).filter(({ subscribed }) => subscribed !== 'none').length;
        assert.ok(watched >= 4, `${id} has asked for ${watched} types`);
      }
    },
    { timeoutMs: 30_000 },
  );
}

/** Moves every client to a replica. */
async function moveTo(replica: Discovery): Promise<void> {
  balanced.get().use(replica.ports.grpc);
  balanced.get().cut();
  await waitServedBy(replica);
}

const TYPES = ['cds', 'eds', 'lds', 'rds', 'vhds'] as const;

/** Responses of a replica so far, by type. */
async function pushes(replica: Discovery): Promise<number[]> {
  return Promise.all(TYPES.map(async (type) => (await replica.metric(`ctl_xds_pushes{type="${type}"}`)) ?? 0));
}

/** Responses while something was done, by type. */
async function pushesOf(replica: Discovery, work: () => Promise<void>): Promise<Record<string, number>> {
  const earlier = await pushes(replica);
  await work();
  const later = await pushes(replica);
  return Object.fromEntries(TYPES.map((type, index) => [type, (later[index] ?? 0) - (earlier[index] ?? 0)]));
}

before(async () => {
  const balancer = balanced.set(await startBalancer(owner));
  const mesh = shared.set(await startVersionsMesh(owner, { balancer }));
  const { config, address } = mesh;
  // A history that another replica does not see: order, removals, and values that were in force for a while.
  await config.apply('late', service('late', { clusterIP: '10.96.0.6', ports: HTTP }));
  await config.apply('gone', service('gone', { clusterIP: '10.96.0.5', ports: HTTP }), endpoints('gone', [], HTTP));
  await routeTo('v2');
  await config.apply('late-endpoints', endpoints('late', [address(22), address(21)], HTTP));
  await config.remove('gone');
  await config.apply('late-endpoints', endpoints('late', [address(21)], HTTP));
  await eventuallyAll(mesh.clients, async (client) => assert.equal((await call(target(client, 'late'))).by, 'web-v1'));
  await routeTo('v1');
  replicas.set({ old: mesh.discovery(), young: await mesh.startReplica() });
});

test('a proxy that moves to a replica with another history is sent nothing but the next change', async () => {
  const { old, young } = replicas.get();
  await waitSynced(old, shared.get().clients);
  const traffic = startTraffic(targets());
  for (const [replica, subset] of [
    [young, 'v2'],
    [old, 'v1'],
    [young, 'v2'],
  ] as const) {
    const sent = await pushesOf(replica, async () => {
      await moveTo(replica);
      // When this edit has arrived, everything that is sent on connecting was sent.
      await routeTo(subset);
    });
    // To the client over SotW the route configuration, over Delta the virtual host.
    assert.deepEqual(sent, { cds: 0, eds: 0, lds: 0, rds: 1, vhds: 1 });
  }
  assert.deepEqual(await traffic.stop(), []);
});

test('proxies whose connections reach their maximum age move to the other replica', async () => {
  const { young } = replicas.get();
  const passing = await shared.get().startReplica({ flags: ['--keepaliveMaxServerConnectionAge', '3s'] });
  const traffic = startTraffic(targets());
  await moveTo(passing);
  balanced.get().use(young.ports.grpc);
  await waitServedBy(young);
  await routeTo('v1');
  assert.equal(await passing.metric('ctl_xds'), 0);
  assert.deepEqual(await traffic.stop(), []);
  assert.deepEqual(await passing.stop(), { code: 0, signal: null });
});

test('a replica ends on SIGTERM: its proxies move to the other one and lose no request', async () => {
  const { old, young } = replicas.get();
  await moveTo(old);
  const traffic = startTraffic(targets());
  await traffic.more(20);
  // A Service that has not noticed yet leads some of the connections to the replica that has ended.
  balanced.get().use(old.ports.grpc, young.ports.grpc);
  const sent = await pushesOf(young, async () => {
    assert.deepEqual(await old.stop(), { code: 0, signal: null });
    await waitServedBy(young);
    await routeTo('v2');
  });
  assert.deepEqual(sent, { cds: 0, eds: 0, lds: 0, rds: 1, vhds: 1 });
  await traffic.more(20);
  assert.deepEqual(await traffic.stop(), []);
});
