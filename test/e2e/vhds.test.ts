/**
 * Virtual hosts as separate resources, with real Envoys over Delta: a change of one service sends one virtual host, a
 * rejected one does not affect others, and no request fails when services are added and removed. Clients over SotW get
 * whole route configurations.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually as retry } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { inCluster, type MeshProxy, sidecar, syncStatus } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, type VersionsMesh } from './support/versions.ts';

const ROUTES = 'type.googleapis.com/envoy.config.route.v3.RouteConfiguration';
const HOSTS = 'type.googleapis.com/envoy.config.route.v3.VirtualHost';
/** Services in addition to `web`, so that a whole route configuration is much larger than a virtual host. */
const OTHERS = 30;
/** A regular expression that is accepted, and that Envoys with the limit {@link STRICT} reject. */
const LARGE = '/[a-z]{500}';
const STRICT = 100;

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

const HTTP = [{ name: 'http', port: HTTP_PORT }];
const other = (index: number) => `other-${index}`;

function otherService(name: string, last: number, at: string): Document[] {
  return [service(name, { clusterIP: `10.98.0.${last}`, ports: HTTP }), endpoints(name, [at], HTTP)];
}

/** A rule that marks requests to a service. */
function marked(host: string, mark: string, match?: object): Document {
  const headers = { request: { set: { 'x-mark': mark } } };
  const route = [{ destination: { host } }];
  const http = [...(match === undefined ? [] : [{ match: [match], route }]), { headers, route }];
  return resource('VirtualService', host, { hosts: [host], http });
}

before(async () => {
  const started = await startVersionsMesh(owner, { env: { CTL_DEBOUNCE_AFTER: '10ms' } });
  const others = Array.from({ length: OTHERS }, (_, index) =>
    otherService(other(index), index + 1, started.address(21)),
  );
  await started.config.apply('others', ...others.flat());
  shared.set(started);
  await everywhere(async (client) => assert.equal((await send(client, other(OTHERS - 1))).by, 'web-v1'));
  await settled();
});

function everywhere(check: (client: MeshProxy) => Promise<void>): Promise<void> {
  return eventuallyAll(mesh().clients, check);
}

function send(client: MeshProxy, host: string) {
  return call({ address: client.address, port: HTTP_PORT, host });
}

async function arrived(host: string, mark: string | undefined): Promise<void> {
  await everywhere(async (client) => assert.equal((await send(client, host)).reply?.headers['x-mark'], mark));
}

async function settled(): Promise<void> {
  await retry(async () => {
    for (const line of await syncStatus(mesh().discovery())) {
      for (const state of ['cluster_state', 'listener_state', 'route_state'])
        assert.equal(line[state], 'SYNCED', state);
      assert.equal(line.virtual_host_state, String(line.proxy).includes('delta') ? 'SYNCED' : undefined);
    }
  });
}

function delta(): MeshProxy {
  const client = mesh().clients.find(({ mode }) => mode === 'delta');
  assert.ok(client);
  return client;
}

interface Watched {
  readonly sentMessages: number;
  readonly sentBytes: number;
}

/** The number of resources of a type that were sent on the Delta client's stream. */
async function sent(type: string): Promise<Watched> {
  const { clients } = (await mesh().discovery().http('/debug/adsz')).json() as {
    clients: { proxy: string; watches: Record<string, Watched> }[];
  };
  const found = clients.find(({ proxy }) => proxy === delta().id)?.watches[type];
  assert.ok(found, type);
  return found;
}

/** Virtual hosts that the Delta client's Envoy has. */
async function hosts(): Promise<string[]> {
  const { configs } = (await delta().configDump()) as {
    configs: { dynamic_route_configs?: { route_config: { name: string; virtual_hosts?: { name: string }[] } }[] }[];
  };
  const routes = configs.flatMap((config) => config.dynamic_route_configs ?? []).map((each) => each.route_config);
  const found = routes.find(({ name }) => name === String(HTTP_PORT));
  return (found?.virtual_hosts ?? []).map(({ name }) => name);
}

const hostName = (name: string) => `${HTTP_PORT}/${name}.default.svc.cluster.local:${HTTP_PORT}`;

test('an edit of one virtual service sends its virtual host and nothing else', async () => {
  const [routes, before] = [await sent(ROUTES), await sent(HOSTS)];
  await mesh().config.apply('edit', marked('web', 'one'));
  await arrived('web', 'one');
  await settled();
  const after = await sent(HOSTS);
  assert.deepEqual(await sent(ROUTES), routes);
  assert.equal(after.sentMessages, before.sentMessages + 1);
  const bytes = after.sentBytes - before.sentBytes;
  assert.ok(bytes < before.sentBytes / 10, `${bytes} bytes, after ${before.sentBytes} for all`);
  await mesh().config.remove('edit');
  await arrived('web', undefined);
});

const patching = (applyTo: string, vhost: object | undefined, mark: string): Document => {
  const value = { request_headers_to_add: [{ header: { key: 'x-mark', value: mark } }] };
  const match = { routeConfiguration: { name: String(HTTP_PORT), ...(vhost && { vhost }) } };
  return resource('EnvoyFilter', 'hosts', {
    configPatches: [{ applyTo, match, patch: { operation: 'MERGE', value } }],
  });
};

test('a patch of one virtual host sends that and nothing else', async () => {
  const [routes, before] = [await sent(ROUTES), await sent(HOSTS)];
  const vhost = { name: `web.default.svc.cluster.local:${HTTP_PORT}` };
  await mesh().config.apply('edit', patching('VIRTUAL_HOST', vhost, 'patched'));
  await arrived('web', 'patched');
  await settled();
  assert.equal((await send(delta(), other(0))).reply?.headers['x-mark'], undefined);
  assert.deepEqual(await sent(ROUTES), routes);
  const after = await sent(HOSTS);
  assert.equal(after.sentMessages, before.sentMessages + 1);
  assert.ok(after.sentBytes - before.sentBytes < before.sentBytes / 10);
});

test('a route configuration is patched while its virtual hosts are in use: no request fails', async () => {
  const traffic = startTraffic(
    mesh().clients.map((client) => ({ address: client.address, port: HTTP_PORT, host: other(0) })),
  );
  for (const mark of ['all', 'everything']) {
    await mesh().config.apply('edit', patching('ROUTE_CONFIGURATION', undefined, mark));
    for (const host of ['web', other(0)]) await arrived(host, mark);
  }
  await mesh().config.remove('edit');
  await arrived('web', undefined);
  await settled();
  assert.deepEqual(await traffic.stop(), []);
  assert.ok((await hosts()).includes(hostName('web')));
});

test('services are added and removed as one virtual host each beside others in use: no request fails', async () => {
  const { config, address } = mesh();
  const routes = await sent(ROUTES);
  const traffic = startTraffic(
    mesh().clients.map((client) => ({ address: client.address, port: HTTP_PORT, host: other(0) })),
  );
  for (let round = 1; round <= 5; round++) {
    const name = `fresh-${round}`;
    await config.apply('fresh', ...otherService(name, 100 + round, address(22)), marked(other(1), `round ${round}`));
    await everywhere(async (client) => assert.equal((await send(client, name)).by, 'web-v2'));
    await arrived(other(1), `round ${round}`);
    const gone = `fresh-${round - 1}`;
    await everywhere(async (client) => assert.equal((await send(client, gone)).status, 502));
    await retry(async () => {
      const known = await hosts();
      assert.deepEqual([known.includes(hostName(name)), known.includes(hostName(gone))], [true, false]);
    });
  }
  await config.remove('fresh');
  await arrived(other(1), undefined);
  await settled();
  assert.deepEqual(await traffic.stop(), []);
  assert.deepEqual(await sent(ROUTES), routes);
});

// An API server gives an address to one Service at a time: there, the two would have none in between.
const skipSwap = inCluster() ? 'an API server refuses to swap addresses' : false;

test('two services swap addresses, which are domains of their hosts: no request fails', {
  skip: skipSwap,
}, async () => {
  const { config, address } = mesh();
  const [left, right] = [address(21), address(22)];
  const swapped = (round: number): Document[] => {
    const [one, two] = round % 2 === 0 ? [201, 202] : [202, 201];
    return [...otherService('left', one, left), ...otherService('right', two, right)];
  };
  await config.apply('edit', ...swapped(0));
  await everywhere(async (client) => assert.equal((await send(client, 'right')).by, 'web-v2'));
  const traffic = startTraffic(
    mesh().clients.flatMap((client) =>
      ['left', '10.98.0.201', other(0)].map((host) => ({ address: client.address, port: HTTP_PORT, host })),
    ),
  );
  for (let round = 1; round <= 5; round++) {
    await config.apply('edit', ...swapped(round));
    const expected = round % 2 === 0 ? 'web-v1' : 'web-v2';
    await everywhere(async (client) => assert.equal((await send(client, '10.98.0.201')).by, expected));
  }
  assert.deepEqual(await traffic.stop(), []);
  await config.remove('edit');
  await everywhere(async (client) => assert.equal((await send(client, 'left')).status, 502));
  assert.deepEqual(
    Object.values(await delta().stats('rds\\..*update_rejected$')).filter((count) => count !== 0),
    [],
  );
});

test('only a virtual host that Envoy rejects is withheld, also over restarts, until it is corrected', async () => {
  const { config, discovery } = mesh();
  for (const client of mesh().clients)
    await client.admin(`/runtime_modify?re2.max_program_size.error_level=${STRICT}`, 'POST');
  const bad = marked(other(2), 'bad', { uri: { regex: LARGE } });
  await config.apply('edit', bad, marked('web', 'good'), marked(other(3), 'good'));
  for (const host of ['web', other(3)])
    await retry(async () => assert.equal((await send(delta(), host)).reply?.headers['x-mark'], 'good'));
  const refused = async () => {
    const line = (await syncStatus(discovery())).find(({ proxy }) => proxy === delta().workload);
    const { message = '', quarantined = {} } = (line?.virtual_host_rejected ?? {}) as {
      message?: string;
      quarantined?: Record<string, string>;
    };
    assert.equal(line?.virtual_host_state, 'REJECTED');
    assert.match(message, /program size/);
    assert.deepEqual(Object.keys(quarantined), [hostName(other(2))]);
  };
  await retry(refused);
  assert.equal((await send(delta(), other(2))).reply?.headers['x-mark'], undefined, 'what it had before');
  // The virtual host of the one client, the whole route configuration of the other.
  await retry(async () => assert.equal(await discovery().metric('ctl_xds_rds_reject'), 2));
  // Edits of others take effect meanwhile.
  await config.apply('edit', bad, marked('web', 'better'));
  await retry(async () => assert.equal((await send(delta(), 'web')).reply?.headers['x-mark'], 'better'));
  await retry(async () => assert.equal((await send(delta(), other(3))).reply?.headers['x-mark'], undefined));
  await discovery().stop();
  await mesh().restart();
  await config.apply('edit', bad, marked('web', 'best'));
  await retry(async () => assert.equal((await send(delta(), 'web')).reply?.headers['x-mark'], 'best'));
  await retry(refused);
  await config.apply('edit', marked(other(2), 'repaired'), marked('web', 'best'));
  await arrived(other(2), 'repaired');
  await settled();
  await config.remove('edit');
  await arrived('web', undefined);
});

test('a client that reconnects with everything is sent nothing, and afterwards only changes', async () => {
  const { config, discovery } = mesh();
  await settled();
  await discovery().stop();
  await mesh().restart();
  await retry(async () => {
    const line = (await syncStatus(mesh().discovery())).find(({ proxy }) => proxy === delta().workload);
    assert.equal(line?.virtual_host_state, 'SYNCED');
  });
  assert.deepEqual([(await sent(HOSTS)).sentMessages, (await sent(ROUTES)).sentMessages], [0, 0]);
  await config.apply('edit', marked('web', 'again'));
  await arrived('web', 'again');
  assert.deepEqual([(await sent(HOSTS)).sentMessages, (await sent(ROUTES)).sentMessages], [1, 0]);
  await config.remove('edit');
  await arrived('web', undefined);
});

test('a listener is added, removed and added again, each time with its routes and their virtual hosts', async () => {
  const { config, address } = mesh();
  const port = HTTP_PORT + 1;
  const client = delta();
  const egress = (numbers: readonly number[]) =>
    sidecar(client.name, {
      address: client.address,
      egress: numbers.map((number) => ({ number, protocol: 'HTTP' })),
    });
  const late = [
    service('late', { clusterIP: '10.98.1.1', ports: [{ name: 'http', port }] }),
    endpoints('late', [address(21)], [{ name: 'http', port: HTTP_PORT }]),
  ];
  const others = mesh().clients.filter(({ mode }) => mode === 'sotw');
  const rest = others.map(({ name, address: at }) =>
    sidecar(name, { address: at, egress: [{ number: HTTP_PORT, protocol: 'HTTP' }] }),
  );
  await config.apply('late', ...late);
  for (let round = 0; round < 3; round++) {
    await config.apply('clients', ...rest, egress([HTTP_PORT, port]));
    await retry(async () => {
      const { by } = await call({ address: client.address, port, host: 'late' });
      assert.equal(by, 'web-v1', `round ${round}`);
    });
    const { by } = await send(client, 'web');
    assert.match(String(by), /web-v/);
    await config.apply('clients', ...rest, egress([HTTP_PORT]));
    await retry(async () => assert.ok(!(await client.admin('/listeners')).includes(`:${port}`)));
  }
  await settled();
  const warming = await client.stats('^listener_manager\\.total_listeners_warming$');
  assert.deepEqual(Object.values(warming), [0]);
});
