/**
 * Resources that are valid except in the proxy's environment and that a real Envoy rejects: a port in use, a missing
 * certificate. They are withheld, everything else is served, and a corrected version is accepted.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { before, test } from 'node:test';
import { eventually as retry, startEcho } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import {
  type MeshProxy,
  MODES,
  planMesh,
  type SyncStatus,
  startMesh,
  syncStatus,
  type TestMesh,
} from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';

const BACKEND_PORT = 7480;
const GOOD = 7080;
/** A port that another program uses. */
const TAKEN = 7081;
const FREE = 7082;
const NEW = 7083;

const owner = suiteOwner();
const address = planMesh();
const shared = lazy<TestMesh & { readonly gateways: readonly MeshProxy[] }>();
const mesh = () => shared.get();

/** A Gateway for each of the two proxies, with a server on each of these ports. */
function gateway(name: string, ports: readonly number[]): Document[] {
  return MODES.map((mode, index) =>
    resource('Gateway', `${name}-${mode}`, {
      selector: { app: `gateway-${mode}` },
      servers: ports.map((number) => ({
        hosts: ['*'],
        port: { number, name: `http-${number}`, protocol: 'HTTP' },
        bind: address(10 + index),
      })),
    }),
  );
}

function routes(mark: string): Document {
  return resource('VirtualService', 'all', {
    hosts: ['*'],
    gateways: ['front', 'back'].flatMap((name) => MODES.map((mode) => `${name}-${mode}`)),
    http: [
      {
        match: [{ uri: { prefix: '/fresh' } }],
        route: [{ destination: { host: 'fresh' } }],
      },
      { headers: { request: { set: { 'x-mark': mark } } }, route: [{ destination: { host: 'a' } }] },
    ],
  });
}

const backend = (name: string): Document[] => [
  service(name, { ports: [{ name: 'http', port: BACKEND_PORT }] }),
  endpoints(name, [address(21)], [{ name: 'http', port: BACKEND_PORT }]),
];

before(async () => {
  await startEcho(owner, { name: 'a', address: address(21), port: BACKEND_PORT });
  for (const index of MODES.keys()) {
    const squatter = createServer();
    await new Promise<void>((resolve) => squatter.listen(TAKEN, address(10 + index), resolve));
    owner.after(() => void squatter.close());
  }
  const started = await startMesh(owner, address, {
    files: { services: backend('a'), front: gateway('front', [GOOD]), routes: [routes('first')] },
  });
  const gateways = await Promise.all(
    MODES.map((mode, index) =>
      started.startProxy({ name: `gateway-${mode}`, type: 'router', mode, address: address(10 + index) }),
    ),
  );
  shared.set({ ...started, gateways });
});

function eventually(check: (gateway: MeshProxy) => Promise<void>): Promise<void> {
  return eventuallyAll(mesh().gateways, check);
}

async function served(port: number, mark: string): Promise<void> {
  await eventually(async (proxy) => {
    const { by, reply } = await call({ address: proxy.address, port });
    assert.deepEqual([by, reply?.headers['x-mark']], ['a', mark]);
  });
}

/** The state of a type for each proxy in syncz. */
async function states(field: string): Promise<readonly unknown[]> {
  return (await syncStatus(mesh().discovery())).map((status) => status[field]);
}

interface Rejected {
  readonly message: string;
  readonly quarantined: Readonly<Record<string, string>>;
}

const rejected = (status: SyncStatus, field: string) => status[field] as Rejected | undefined;

interface Distribution {
  readonly proxy: string;
  readonly versions: Readonly<Record<string, string | null>>;
  readonly upToDate: boolean;
}

/** The version of a resource for each proxy. */
async function distribution(key: string): Promise<readonly Distribution[]> {
  return (await mesh().discovery().http(`/debug/config_distribution?resource=${key}`)).json() as Distribution[];
}

/** Waits until every proxy has the newest version of a resource in all types; resolves with that version. */
async function distributed(key: string): Promise<string> {
  return retry(async () => {
    const all = await distribution(key);
    assert.equal(all.length, MODES.length);
    assert.ok(
      all.every(({ upToDate }) => upToDate),
      JSON.stringify(all),
    );
    const [version = '', ...others] = new Set(all.flatMap(({ versions }) => Object.values(versions)));
    assert.ok(version !== '' && version !== null && others.length === 0);
    return version;
  });
}

test('a listener that Envoy cannot open is withheld, logged and counted, and accepted once corrected', async () => {
  const { config, discovery, gateways } = mesh();
  await served(GOOD, 'first');
  const keys = MODES.map((mode) => `Gateway/default/back-${mode}`);
  const routesBefore = await distributed('VirtualService/default/all');
  await config.apply('back', ...gateway('back', [TAKEN, NEW]));
  await served(NEW, 'first');
  await retry(async () => {
    assert.deepEqual(await states('listener_state'), ['REJECTED', 'REJECTED']);
    for (const status of await syncStatus(discovery())) {
      const { message = '', quarantined = {} } = rejected(status, 'listener_rejected') ?? {};
      const proxy = gateways.find(({ workload }) => workload === status.proxy);
      assert.match(message, /cannot bind|Address already in use/);
      assert.deepEqual(Object.keys(quarantined), [`${proxy?.address}_${TAKEN}`]);
    }
  });
  assert.ok(((await discovery().metric('ctl_total_xds_rejects{type="lds"}')) ?? 0) >= 2);
  assert.equal(await discovery().metric('ctl_xds_lds_reject'), 2);
  for (const { id, address: at } of gateways) {
    const lines = discovery()
      .output()
      .split('\n')
      .filter((line) => line.includes(id) && line.includes('rejects lds'));
    assert.ok(
      lines.some((line) => line.includes(`quarantined: ${at}_${TAKEN}`) && /cannot bind|in use/.test(line)),
      lines.join('\n'),
    );
  }
  // No proxy is reported to have the rejected resource, although it has acknowledged the others.
  for (const key of keys) {
    for (const { versions, upToDate } of await distribution(key))
      assert.deepEqual([versions.lds, upToDate], ['', false]);
  }
  // All other changes take effect meanwhile.
  await config.apply('routes', routes('second'));
  await served(GOOD, 'second');
  await served(NEW, 'second');
  await retry(async () => {
    for (const { versions, upToDate } of await distribution('VirtualService/default/all')) {
      assert.equal(versions.lds, routesBefore);
      assert.ok(versions.rds !== routesBefore && versions.rds !== '');
      assert.equal(upToDate, false);
    }
  });
  const unknown = await discovery().http('/debug/config_distribution?resource=Gateway/default/nothing');
  assert.equal(unknown.status, 404);
  const rejects = await discovery().metric('ctl_total_xds_rejects{type="lds"}');
  await config.apply('back', ...gateway('back', [FREE, NEW]));
  await served(FREE, 'second');
  await retry(async () => assert.deepEqual(await states('listener_state'), ['SYNCED', 'SYNCED']));
  for (const key of keys) await distributed(key);
  const pushed = /\tinfo\tads\tpushed .*Gateway\/default\/back-.* to 2 proxies in \d+\.\d\d s$/m;
  await retry(() => assert.match(discovery().output(), pushed));
  assert.equal(await discovery().metric('ctl_xds_lds_reject'), 0);
  assert.equal(
    await discovery().metric('ctl_total_xds_rejects{type="lds"}'),
    rejects,
    'it is not tried again and again',
  );
});

test('a cluster that Envoy rejects keeps its last good version, and the rest of the update is applied', async () => {
  const { config, discovery } = mesh();
  await config.apply('routes', routes('third'));
  await served(GOOD, 'third');
  const rule = (trafficPolicy: object) => resource('DestinationRule', 'a', { host: 'a', trafficPolicy });
  // The file is on the proxy's machine: only the proxy can know that it is missing.
  const tls = { mode: 'SIMPLE', caCertificates: '/nonexistent/ca.pem', sni: 'a.example' };
  await config.apply('edit', rule({ tls }), ...backend('fresh'));
  await eventually(async (proxy) => {
    assert.equal((await call({ address: proxy.address, port: GOOD, path: '/fresh' })).by, 'a');
  });
  await retry(async () => {
    assert.deepEqual(await states('cluster_state'), ['REJECTED', 'REJECTED']);
    for (const status of await syncStatus(discovery())) {
      const { message = '', quarantined = {} } = rejected(status, 'cluster_rejected') ?? {};
      assert.match(message, /nonexistent/);
      assert.deepEqual(Object.keys(quarantined), [`outbound|${BACKEND_PORT}||a.default.svc.cluster.local`]);
    }
  });
  await served(GOOD, 'third');
  await config.apply('edit', rule({ connectionPool: { tcp: { connectTimeout: '7s' } } }), ...backend('fresh'));
  await retry(async () => assert.deepEqual(await states('cluster_state'), ['SYNCED', 'SYNCED']));
  await eventually(async (proxy) => assert.match(JSON.stringify(await proxy.configDump()), /"connect_timeout":"7s"/));
  await served(GOOD, 'third');
  assert.equal(await discovery().metric('ctl_xds_cds_reject'), 0);
});

test('an Envoy or discovery that starts while a resource is rejected gets or serves everything else', async () => {
  const { config, startProxy } = mesh();
  await config.apply('routes', routes('fourth'));
  const tls = { mode: 'SIMPLE', caCertificates: '/nonexistent/ca.pem', sni: 'b.example' };
  const bad = resource('DestinationRule', 'b', { host: 'b', trafficPolicy: { tls } });
  await config.apply('back', ...gateway('back', [TAKEN, NEW]));
  await config.apply('edit', ...backend('b'), ...backend('fresh'), bad);
  await retry(async () => {
    assert.deepEqual(await states('listener_state'), ['REJECTED', 'REJECTED']);
    assert.deepEqual(await states('cluster_state'), ['REJECTED', 'REJECTED']);
  });
  for (const [index, mode] of MODES.entries()) {
    // It opens the same ports as the first Envoy of its kind, which Envoys can share.
    const late = await startProxy({
      name: `late-${mode}`,
      type: 'router',
      mode,
      address: address(30 + index),
      labels: { app: `gateway-${mode}` },
    });
    await retry(async () => {
      const status = (await syncStatus(mesh().discovery())).find(({ proxy }) => proxy === late.workload);
      assert.equal(status?.cluster_state, 'REJECTED');
      assert.equal(status?.listener_state, 'REJECTED');
      assert.match(await late.admin('/listeners'), new RegExp(`:${NEW}`));
      assert.match(await late.admin('/clusters'), /fresh\.default/);
    });
    await late.stop();
  }
  await mesh().discovery().stop();
  await mesh().restart();
  await config.apply('routes', routes('fifth'));
  await served(GOOD, 'fifth');
  await served(NEW, 'fifth');
  await retry(async () => {
    assert.deepEqual(await states('listener_state'), ['REJECTED', 'REJECTED']);
    assert.deepEqual(await states('cluster_state'), ['REJECTED', 'REJECTED']);
  });
  await config.apply('back', ...gateway('back', [FREE, NEW]));
  await config.apply('edit', ...backend('b'), ...backend('fresh'));
  await served(FREE, 'fifth');
  await retry(async () => {
    assert.deepEqual(await states('listener_state'), ['SYNCED', 'SYNCED']);
    assert.deepEqual(await states('cluster_state'), ['SYNCED', 'SYNCED']);
  });
});
