/** Processes that stop, die and restart without an effect on proxies. */
import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import { eventually, startDiscovery } from '../harness/index.ts';
import { endpoints, resource, service } from './support/config.ts';
import { type MeshProxy, sidecar, syncStatus, waitSynced } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

const HTTP = [{ name: 'http', port: HTTP_PORT }];

before(async () => {
  shared.set(await startVersionsMesh(owner));
});

beforeEach(async () => {
  await routeTo('v1');
  await answeredBy('web-v1');
  await waitSynced(mesh().discovery(), mesh().clients);
});

const target = (client: MeshProxy, host = 'web') => ({ address: client.address, port: HTTP_PORT, host });

let edits = 0;

/** Routes everything to one version, and marks requests with the number of this edit. */
async function routeTo(subset: string): Promise<void> {
  const headers = { request: { set: { 'x-edit': String(++edits) } } };
  await mesh().config.apply(
    'routes',
    resource('VirtualService', 'web', { hosts: ['web'], http: [{ headers, route: [to(subset)] }] }),
  );
}

/** Waits until the latest edit of the route has arrived. */
async function answeredBy(name: string, clients = mesh().clients): Promise<void> {
  await eventuallyAll(clients, async (client) => {
    const { by, reply } = await call(target(client));
    assert.deepEqual([by, reply?.headers['x-edit']], [name, String(edits)]);
  });
}

/** Counters of accepted configuration in an Envoy, by kind: they grow with everything that it is sent. */
async function updates(client: MeshProxy): Promise<Readonly<Record<string, number>>> {
  return client.stats('(cds|lds|rds\\..*|cluster\\.outbound.*)\\.update_(success|rejected)$');
}

/** Waits until every proxy has a new stream and has subscribed to everything. */
async function waitConnected(): Promise<void> {
  await eventually(
    async () => {
      const answer = (await mesh().discovery().http('/debug/adsz')).json() as {
        clients: { proxy: string; watches: Record<string, { subscribed: unknown }> }[];
      };
      for (const { id } of mesh().clients) {
        const client = answer.clients.find(({ proxy }) => proxy === id);
        if (client === undefined) throw new Error(`${id} is not connected`);
        const watched = Object.values(client.watches).filter(({ subscribed }) => subscribed !== 'none').length;
        if (watched < 4) throw new Error(`${id} has asked for ${watched} types`);
      }
    },
    { timeoutMs: 30_000 },
  );
}

async function pushes(): Promise<Readonly<Record<string, number>>> {
  const counts = await Promise.all(
    ['cds', 'eds', 'lds', 'rds', 'vhds'].map(async (type) => {
      const count = await mesh().discovery().metric(`ctl_xds_pushes{type="${type}"}`);
      return [type, count ?? 0] as const;
    }),
  );
  return Object.fromEntries(counts);
}

test('after a restart proxies that are up to date are sent nothing but the next change', async () => {
  const earlier = await Promise.all(mesh().clients.map(updates));
  assert.deepEqual(await mesh().discovery().stop(), { code: 0, signal: null });
  await mesh().restart();
  await waitConnected();
  // An edit of a route: when it has arrived, everything that is sent on connecting was sent.
  await routeTo('v2');
  await answeredBy('web-v2');
  // To the one over SotW the route configuration, over Delta the virtual host.
  assert.deepEqual(await pushes(), { cds: 0, eds: 0, lds: 0, rds: 1, vhds: 1 });
  for (const [index, client] of mesh().clients.entries()) {
    const now = await updates(client);
    const took = client.mode === 'delta' ? /\.rds\.vhds\..*update_success$/ : /\.rds\..*update_success$/;
    for (const [name, count] of Object.entries(earlier[index] ?? {})) {
      assert.equal(now[name], count + (took.test(name) ? 1 : 0), `${client.mode}: ${name}`);
    }
  }
});

test('changes during an outage of discovery arrive afterwards: additions, edits and removals', async () => {
  const { config, address, clients } = mesh();
  const gone = [
    service('gone', { clusterIP: '10.96.0.5', ports: HTTP }),
    endpoints('gone', [address(21)], HTTP),
  ] as const;
  await config.apply('gone', ...gone);
  await eventuallyAll(clients, async (client) => assert.equal((await call(target(client, 'gone'))).by, 'web-v1'));
  await mesh().discovery().stop();
  await config.remove('gone');
  await config.apply(
    'new',
    service('new', { clusterIP: '10.96.0.6', ports: HTTP }),
    endpoints('new', [address(22)], HTTP),
  );
  await routeTo('v2');
  await mesh().restart();
  await answeredBy('web-v2');
  await eventuallyAll(clients, async (client) => {
    assert.equal((await call(target(client, 'new'))).by, 'web-v2');
    assert.equal((await call(target(client, 'gone'))).status, 502);
    assert.doesNotMatch(await client.admin('/clusters'), /gone\.default/);
  });
  await config.remove('new');
});

test('discovery is killed and restarted under traffic: no request fails, and edits are followed again', async () => {
  const traffic = startTraffic(mesh().clients.map((client) => target(client)));
  await traffic.more(50);
  assert.deepEqual(await mesh().discovery().kill(), { code: null, signal: 'SIGKILL' });
  await traffic.more(100);
  await mesh().restart();
  await waitConnected();
  await routeTo('v2');
  await answeredBy('web-v2');
  await traffic.more(50);
  assert.deepEqual(await traffic.stop(), []);
});

test('an Envoy that is killed is removed from the proxies, and its replacement gets everything', async () => {
  const { startProxy, address, config, discovery } = mesh();
  const at = address(15);
  await config.apply('victim', sidecar('victim', { address: at, egress: [{ number: HTTP_PORT, protocol: 'HTTP' }] }));
  for (const mode of ['sotw', 'delta'] as const) {
    const victim = await startProxy({ name: 'victim', address: at, mode });
    await answeredBy('web-v1', [victim]);
    await victim.kill();
    await eventually(async () => {
      const names = (await syncStatus(discovery())).map(({ proxy }) => proxy);
      assert.deepEqual(names.sort(), ['client-delta.default', 'client-sotw.default']);
    });
    assert.equal(await discovery().metric('ctl_xds'), 2);
  }
  await config.remove('victim');
});

test('a second discovery at the same address ends with one line, and the first is not affected', async (t) => {
  const { discovery, config } = mesh();
  const second = await startDiscovery(t, { configDir: config.path, ports: discovery().ports, waitReady: false });
  assert.deepEqual(await second.exited, { code: 1, signal: null });
  const complaints = second
    .output()
    .split('\n')
    .filter((line) => /cannot listen/.test(line));
  assert.equal(complaints.length, 1, second.output());
  assert.match(complaints[0] ?? '', /Addr.*127\.0\.0\.1:\d+.*EADDRINUSE/);
  await routeTo('v2');
  await answeredBy('web-v2');
});

test('SIGUSR1 opens no debugger, which would disclose the authority’s key', async () => {
  const { discovery } = mesh();
  process.kill(discovery().pid, 'SIGUSR1');
  // The answer to a later request shows that the signal was delivered before it.
  assert.equal((await discovery().http('/ready')).status, 200);
  await routeTo('v2');
  await answeredBy('web-v2');
  assert.doesNotMatch(discovery().output(), /Debugger listening/);
});

test('SIGTERM ends discovery in an orderly way while streams are open', async () => {
  const { discovery } = mesh();
  assert.equal(await discovery().metric('ctl_xds'), 2);
  assert.deepEqual(await discovery().stop(), { code: 0, signal: null });
  assert.match(discovery().output(), /SIGTERM: stopping/);
  assert.doesNotMatch(discovery().output(), /\terror\t/);
  await answeredBy('web-v1');
  await mesh().restart();
  await waitConnected();
});
