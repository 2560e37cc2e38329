/** DestinationRules: load balancing, pools, outlier detection and subsets, in the traffic of real Envoys. */
import assert from 'node:assert/strict';
import { afterEach, before, test } from 'node:test';
import { resource } from './support/config.ts';
import type { MeshProxy } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll, tally } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh, WEB, WEB_SUBSETS } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

before(async () => {
  shared.set(await startVersionsMesh(owner));
});

afterEach(async () => {
  await mesh().config.apply('web', WEB, WEB_SUBSETS);
  await mesh()
    .config.remove('routes')
    .catch(() => undefined);
});

const target = (client: MeshProxy) => ({ address: client.address, port: HTTP_PORT, host: 'web' });

function eventually(check: (client: MeshProxy) => Promise<void>): Promise<void> {
  return eventuallyAll(mesh().clients, check);
}

async function apply(trafficPolicy: object, name = 'web'): Promise<void> {
  await mesh().config.apply(name, WEB, resource('DestinationRule', 'web', { host: 'web', trafficPolicy }));
}

async function routeWeb(subset: string): Promise<void> {
  await mesh().config.apply(
    'routes',
    resource('VirtualService', 'web', { hosts: ['web'], http: [{ route: [to(subset)] }] }),
  );
}

const spreads = async (client: MeshProxy) => {
  assert.deepEqual(Object.keys(await tally(target(client), 12)).sort(), ['web-v1', 'web-v2']);
};

test('consistent hashing keeps a user at one pod; without it requests are spread', async () => {
  const ofUser = (client: MeshProxy, user: string) => tally({ ...target(client), headers: { 'x-user': user } }, 8);
  await eventually(spreads);
  await apply({ loadBalancer: { consistentHash: { httpHeaderName: 'x-user' } } });
  await eventually(async (client) => {
    const pods = new Set<string>();
    // Enough users that not all of them have the same pod, whatever the pods' addresses are: eight did once in a
    // hundred runs.
    for (const user of Array.from({ length: 32 }, (_, number) => `user-${number}`)) {
      const seen = Object.keys(await ofUser(client, user));
      assert.equal(seen.length, 1, `${user} is answered by ${seen}`);
      pods.add(seen[0] ?? '');
    }
    assert.equal(pods.size, 2);
  });
  await apply({ loadBalancer: { simple: 'ROUND_ROBIN' } });
  await eventually(async (client) => assert.deepEqual(await ofUser(client, 'a'), { 'web-v1': 4, 'web-v2': 4 }));
});

test('a small connection pool refuses requests beyond its size, a larger one accepts them', async () => {
  const slow = (client: MeshProxy) => call({ ...target(client), path: '/?delayMs=300' });
  const together = async (client: MeshProxy) => {
    const outcomes = await Promise.all(Array.from({ length: 6 }, () => slow(client)));
    return outcomes.map(({ status }) => status).sort();
  };
  await routeWeb('v1');
  const subsets = [{ name: 'v1', labels: { version: 'v1' } }];
  const pool = (tcp: object, http: object) =>
    mesh().config.apply(
      'web',
      WEB,
      resource('DestinationRule', 'web', { host: 'web', subsets, trafficPolicy: { connectionPool: { tcp, http } } }),
    );
  await pool({ maxConnections: 1 }, { http1MaxPendingRequests: 1 });
  await eventually(async (client) => {
    const statuses = await together(client);
    assert.ok(statuses.includes(503) && statuses.includes(200), String(statuses));
  });
  await pool({ maxConnections: 100 }, { http1MaxPendingRequests: 100 });
  await eventually(async (client) => assert.deepEqual(await together(client), [200, 200, 200, 200, 200, 200]));
});

test('a failing pod is ejected, and used again when the rule is removed', async () => {
  const trafficPolicy = {
    loadBalancer: { simple: 'ROUND_ROBIN' },
    outlierDetection: {
      consecutive5xxErrors: 1,
      interval: '0.1s',
      baseEjectionTime: '60s',
      maxEjectionPercent: 50,
    },
  };
  await apply(trafficPolicy);
  await eventually(async (client) => {
    await call({ ...target(client), path: '/?status=500' });
    const seen = await tally(target(client), 6);
    assert.equal(Object.keys(seen).length, 1, JSON.stringify(seen));
  });
  await apply({ loadBalancer: { simple: 'ROUND_ROBIN' } });
  await eventually(spreads);
});

test('a subset follows its labels', async () => {
  await routeWeb('v1');
  await eventually(async (client) => assert.deepEqual(await tally(target(client), 6), { 'web-v1': 6 }));
  const subsets = [{ name: 'v1', labels: { version: 'v2' } }];
  await mesh().config.apply('web', WEB, resource('DestinationRule', 'web', { host: 'web', subsets }));
  await eventually(async (client) => assert.deepEqual(await tally(target(client), 6), { 'web-v2': 6 }));
});

test('settings of one port take precedence over those of the host', async () => {
  const cutAfter = async (client: MeshProxy) => {
    const name = `outbound|${HTTP_PORT}||web.default.svc.cluster.local`;
    const { configs } = await client.configDump();
    const clusters = configs.flatMap(
      (each) => (each.dynamic_active_clusters ?? []) as { cluster: { name: string; connect_timeout: string } }[],
    );
    return clusters.find(({ cluster }) => cluster.name === name)?.cluster.connect_timeout;
  };
  const pool = (connectTimeout: string) => ({ connectionPool: { tcp: { connectTimeout } } });
  await apply(pool('3s'));
  await eventually(async (client) => assert.equal(await cutAfter(client), '3s'));
  await apply({ ...pool('3s'), portLevelSettings: [{ port: { number: HTTP_PORT }, ...pool('4s') }] });
  await eventually(async (client) => assert.equal(await cutAfter(client), '4s'));
});
