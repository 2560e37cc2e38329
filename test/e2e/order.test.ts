/**
 * Edits under traffic: the destination of a route is sent before the route and removed after it, so that no request
 * fails.
 */
import assert from 'node:assert/strict';
import { afterEach, before, test } from 'node:test';
import { eventually } from '../harness/index.ts';
import { endpoints, resource, service } from './support/config.ts';
import { sidecar } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh, WEB, webWorkloads } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

const HTTP = [{ name: 'http', port: HTTP_PORT }];
const ROUNDS = 8;

before(async () => {
  // Short, so that many pushes follow each other.
  shared.set(await startVersionsMesh(owner, { env: { CTL_DEBOUNCE_AFTER: '10ms' } }));
});

/** Asserts that nothing is left warming and that nothing was rejected. */
afterEach(async () => {
  for (const { stats, mode } of mesh().clients) {
    await eventually(async () => {
      const waiting = await stats('^(cluster_manager\\.warming_clusters|listener_manager\\.total_listeners_warming)$');
      for (const [name, count] of Object.entries(waiting)) assert.equal(count, 0, `${mode}: ${name}`);
    });
    for (const [name, count] of Object.entries(await stats('update_rejected$')))
      assert.equal(count, 0, `${mode}: ${name}`);
  }
});

const targets = () => mesh().clients.map(({ address }) => ({ address, port: HTTP_PORT, host: 'web' }));

/** A rule that marks requests. */
function routed(round: number, destination: object) {
  const headers = { request: { set: { 'x-round': String(round) } } };
  return resource('VirtualService', 'web', { hosts: ['web'], http: [{ headers, route: [destination] }] });
}

async function arrived(round: number): Promise<void> {
  await eventuallyAll(targets(), async (target) => {
    assert.equal((await call(target)).reply?.headers['x-round'], String(round));
  });
}

test('routes move to new subsets while the old ones are removed: no request fails', async () => {
  const traffic = startTraffic(targets());
  for (let round = 1; round <= ROUNDS; round++) {
    const subset = `round-${round}`;
    const subsets = [{ name: subset, labels: { version: `v${1 + (round % 2)}` } }];
    await mesh().config.apply(
      'web',
      WEB,
      resource('DestinationRule', 'web', { host: 'web', subsets }),
      routed(round, to(subset)),
    );
    await arrived(round);
  }
  assert.deepEqual(await traffic.stop(), []);
});

test('routes move to new services while the old ones are removed: no request fails', async () => {
  const { config, address } = mesh();
  const traffic = startTraffic(targets());
  for (let round = 101; round <= 100 + ROUNDS; round++) {
    const name = `web-${round}`;
    await config.apply(
      'web',
      WEB,
      service(name, { clusterIP: `10.97.0.${round}`, ports: HTTP }),
      endpoints(name, [address(21 + (round % 2))], HTTP),
      routed(round, { destination: { host: name } }),
    );
    await arrived(round);
  }
  assert.deepEqual(await traffic.stop(), []);
});

test('clusters change their settings while endpoints are added and removed: no request fails', async () => {
  const { config, address } = mesh();
  await config.apply('web', WEB, routed(200, { destination: { host: 'web' } }));
  await arrived(200);
  const [v1, v2] = webWorkloads(address(21), address(22));
  assert.ok(v1 && v2);
  const traffic = startTraffic(targets());
  for (let round = 201; round <= 200 + ROUNDS; round++) {
    const trafficPolicy = { connectionPool: { tcp: { connectTimeout: `${round}s` } } };
    const pods = round % 2 === 0 ? { 'web-v1': address(21), 'web-v2': address(22) } : { 'web-v1': address(21) };
    await config.apply('workloads', v1, v2, endpoints('web', pods, HTTP));
    const rule = resource('DestinationRule', 'web', { host: 'web', trafficPolicy });
    await config.apply('web', WEB, rule, routed(round, { destination: { host: 'web' } }));
    await arrived(round);
  }
  assert.deepEqual(await traffic.stop(), []);
});

test('the imports of a Sidecar change around a service in use: no request fails', async () => {
  const { config, clients } = mesh();
  await config.apply('web', WEB, routed(300, { destination: { host: 'web' } }));
  await arrived(300);
  const traffic = startTraffic(targets());
  for (let round = 301; round <= 300 + ROUNDS; round++) {
    const hosts = round % 2 === 0 ? ['*/*'] : ['./web.default.svc.cluster.local'];
    await config.apply(
      'clients',
      ...clients.map(({ name, address }) =>
        sidecar(name, { address, egress: [{ number: HTTP_PORT, protocol: 'HTTP', hosts }] }),
      ),
    );
    await config.apply('web', WEB, routed(round, { destination: { host: 'web' } }));
    await arrived(round);
  }
  assert.deepEqual(await traffic.stop(), []);
});
