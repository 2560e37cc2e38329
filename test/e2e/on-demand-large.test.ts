/**
 * Sidecars on demand in a mesh of which ctl-discovery generates clusters when a proxy needs them, with real Envoys:
 * first requests and connections, edits that lead to services that nobody has used, and restarts.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { freePort, eventually as retry, startEcho } from '../harness/index.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { type MeshProxy, sidecar } from './support/mesh.ts';
import {
  ABSENT_PORT,
  type AskingMesh,
  destination,
  LATE_TCP_PORT,
  numbered,
  SUFFIX,
  serviceAt,
  startAskingMesh,
  TCP_PORT,
  TLS_PORT,
  V1,
  V2,
  WEIGHTED_PORT,
} from './support/on-demand-mesh.ts';
import { grpcEcho, type Received, sendHttp1, sendHttp2, webSocketEcho } from './support/protocol-calls.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, greeting, tlsGreeting } from './support/traffic.ts';
import { HTTP_PORT } from './support/versions.ts';

/** Services that nobody calls. With those of the tests these are more than ctl-discovery generates at once. */
const IDLE = 2_400;
const STARS = 'stars.example';
const SERVER_PORT = 7496;

const owner = suiteOwner();
const shared = lazy<AskingMesh>();

const route = (...hosts: readonly string[]) => [
  { route: hosts.map((host) => ({ destination: destination(host), weight: 100 / hosts.length })) },
];

const virtualService = (name: string, hosts: readonly string[], http: readonly Document[]): Document =>
  resource('VirtualService', name, { hosts, http });

function starEntry(host: string, address: string): Document {
  return resource('ServiceEntry', host.replaceAll('*', 'any'), {
    hosts: [host],
    ports: [{ number: HTTP_PORT, name: 'http', protocol: 'HTTP' }],
    resolution: 'STATIC',
    endpoints: [{ address }],
  });
}

/** Services at the second backend, to which edits lead; the first one is that of the wildcard. */
const LED = [
  ...['led-star', 'led-route', 'led-part-1', 'led-part-2', 'led-mirror', 'led-alias', 'led-subset', 'led-killed'],
  ...['led-away', 'led-away-too', 'led-inbound', 'led-last'],
];
const CALLED = ['edited', 'held-1', 'held-2', 'first-killed', 'first-away', 'created'];

before(async () => {
  const ports = [{ name: 'http', port: HTTP_PORT }];
  const idle = (_: unknown, at: number) => service(`idle-${at}`, { clusterIP: `10.100.${at >> 8}.${at & 255}`, ports });
  const mesh = await startAskingMesh(owner, {
    idle: Array.from({ length: IDLE }, idle),
    called: CALLED.flatMap((name) => serviceAt(name, V1)),
    led: [
      ...LED.flatMap((name) => serviceAt(name, V2)),
      resource('DestinationRule', 'led-subset', { host: 'led-subset', subsets: [{ name: 'any', labels: {} }] }),
    ],
    stars: [starEntry(`*.${STARS}`, V1), starEntry(`one.${STARS}`, V2)],
  });
  shared.set(mesh);
});

const at = (proxy: MeshProxy, host: string, path = '/') => ({ address: proxy.address, port: HTTP_PORT, host, path });

const outcome = ({ status, by }: Received) => [status, by];

const send = async (host: string, path = '/') => outcome(await sendHttp1(at(shared.get().client, host, path)));

const clusterOf = (name: string, port = HTTP_PORT, subset = '') => `outbound|${port}|${subset}|${name}.${SUFFIX}`;

/** A section of a configuration dump. */
interface Config {
  readonly dynamic_active_clusters?: readonly { readonly cluster: { readonly name: string } }[];
  readonly dynamic_route_configs?: readonly {
    readonly route_config: { readonly virtualHosts?: readonly { readonly name: string }[] };
  }[];
}

/** What ctl-discovery has generated for proxies like this one. */
async function generated(): Promise<readonly Config[]> {
  const { client, mesh } = shared.get();
  const dumps = [false, true].map(async (askable) => {
    const path = `/debug/config_dump?proxyID=${client.workload}&askable=${askable}`;
    return ((await mesh.discovery().http(path)).json() as { readonly configs: readonly Config[] }).configs;
  });
  return (await Promise.all(dumps)).flat();
}

/** Names of the clusters. */
async function generatedClusters(): Promise<ReadonlySet<string>> {
  const clusters = (await generated()).flatMap(({ dynamic_active_clusters: all = [] }) => all);
  return new Set(clusters.map(({ cluster }) => cluster.name));
}

/** Names of the virtual hosts. */
async function generatedHosts(): Promise<ReadonlySet<string>> {
  const routes = (await generated()).flatMap(({ dynamic_route_configs: all = [] }) => all);
  return new Set(routes.flatMap(({ route_config: { virtualHosts = [] } }) => virtualHosts.map(({ name }) => name)));
}

/** Nobody has used these services, so that they have no clusters. */
async function assertUnused(...clusters: readonly string[]): Promise<void> {
  const generated = await generatedClusters();
  for (const cluster of clusters) assert.ok(!generated.has(cluster), cluster);
}

/** Requests that go on while `change` runs; each must be answered with 200. */
async function duringRequests(targets: Parameters<typeof startTraffic>[0], change: () => Promise<void>): Promise<void> {
  const traffic = startTraffic(targets);
  try {
    await traffic.more(10);
    await change();
    await traffic.more(10);
  } finally {
    assert.deepEqual(await traffic.stop(), []);
  }
}

/** The same to hosts, by the client. */
const during = (hosts: readonly string[], change: () => Promise<void>): Promise<void> =>
  duringRequests(
    hosts.map((host) => at(shared.get().client, host)),
    change,
  );

test('first requests in each protocol reach services of which there are no clusters', async () => {
  const { client } = shared.get();
  await assertUnused(...['known', 'http2', 'unary', 'stream', 'websocket'].map((name) => clusterOf(name)));
  assert.deepEqual(await send('known'), [200, 'v1']);
  assert.deepEqual(outcome(await sendHttp2(at(client, 'http2'))), [200, 'v1']);
  assert.deepEqual(await grpcEcho('unary', at(client, 'unary'), ['one']), ['one']);
  assert.deepEqual(await grpcEcho('stream', at(client, 'stream'), ['one', 'two', 'three']), ['one', 'two', 'three']);
  assert.equal(await webSocketEcho(at(client, 'websocket'), 'hello'), 'hello');
  const generated = await generatedClusters();
  assert.ok(generated.has(clusterOf('known')) && !generated.has(clusterOf('idle-0')));
});

test('first connections over TCP, to weighted destinations and over TLS reach services without clusters', async () => {
  const { client } = shared.get();
  // Nobody calls `late-tcp`. It has a cluster only where Envoy took more than a second to acknowledge its clusters, and
  // was sent those of all TCP listeners: the others have theirs, too, and connections are to succeed all the same.
  if (!(await generatedClusters()).has(clusterOf('late-tcp', LATE_TCP_PORT)))
    await assertUnused(
      clusterOf('tcp-a', TCP_PORT),
      ...['b', 'c'].map((name) => clusterOf(`tcp-${name}`, WEIGHTED_PORT)),
      ...['tls-a', 'tls-b'].map((name) => `outbound|${TLS_PORT}||${name}.example`),
    );
  assert.equal(await greeting(client.address, TCP_PORT), 'v1');
  const names = await Promise.all(Array.from({ length: 40 }, () => greeting(client.address, WEIGHTED_PORT)));
  assert.deepEqual([...new Set(names)].sort(), ['v1', 'v2']);
  assert.equal(await tlsGreeting(client.address, TLS_PORT, 'tls-a.example'), 'v1');
  assert.equal(await tlsGreeting(client.address, TLS_PORT, 'tls-b.example'), 'v2');
});

test('mirrors and weighted routes reach services that nobody has asked for', async () => {
  const { client, v2 } = shared.get();
  await assertUnused(...['mirrored', 'copies', 'split', 'part-1', 'part-2'].map((name) => clusterOf(name)));
  assert.deepEqual(await send('mirrored', '/first'), [200, 'v1']);
  await retry(() => assert.ok(v2.paths.includes('/first')));
  const answers = await Promise.all(Array.from({ length: 40 }, () => sendHttp1(at(client, 'split'))));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  assert.deepEqual([...new Set(answers.map(({ by }) => by))].sort(), ['v1', 'v2']);
});

test('first requests to 50 services at once succeed', async () => {
  const { client } = shared.get();
  await assertUnused(...numbered('many').map((name) => clusterOf(name)));
  const answers = await Promise.all(
    numbered('many').map((host, index) => (index % 2 === 0 ? sendHttp1 : sendHttp2)(at(client, host))),
  );
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
});

test('hosts of a wildcard are served, also while an edit leads them to a service without clusters', async () => {
  const { mesh } = shared.get();
  await assertUnused(`outbound|${HTTP_PORT}||*.${STARS}`, `outbound|${HTTP_PORT}||one.${STARS}`, clusterOf('led-star'));
  assert.deepEqual(await send(`a.${STARS}`), [200, 'v1']);
  assert.deepEqual(await send(`one.${STARS}`), [200, 'v2']);
  assert.deepEqual(await send(`b.${STARS}`), [200, 'v1']);
  await during([`a.${STARS}`, `b.${STARS}`, `one.${STARS}`], async () => {
    await mesh.config.apply('star', virtualService('star', [`*.${STARS}`], route('led-star')));
    for (const name of ['a', 'b', 'new'])
      await retry(async () => assert.deepEqual(await send(`${name}.${STARS}`), [200, 'v2']));
    await mesh.config.remove('star');
    await retry(async () => assert.deepEqual(await send(`a.${STARS}`), [200, 'v1']));
  });
});

test('edits that lead to services without clusters take effect without a failed request', async () => {
  const { mesh, v2 } = shared.get();
  await assertUnused(clusterOf('edited'), ...LED.slice(1).map((name) => clusterOf(name)));
  assert.deepEqual(await send('edited'), [200, 'v1']);
  const edit = (hosts: readonly string[], http: readonly Document[]) =>
    mesh.config.apply('edited', virtualService('edited', hosts, http));
  const answeredBy = (by: string) => retry(async () => assert.deepEqual(await send('edited'), [200, by]));
  await during(['edited'], async () => {
    await edit(['edited'], route('led-route'));
    await answeredBy('v2');
    await edit(['edited'], [{ ...route('edited')[0], mirror: destination('led-mirror') }]);
    await answeredBy('v1');
    await send('edited', '/copy');
    await retry(() => assert.ok(v2.paths.includes('/copy')));
    await edit(['edited'], route('led-part-1', 'led-part-2'));
    await answeredBy('v2');
    await edit(['edited'], route('edited'));
    await answeredBy('v1');
    await edit(['edited'], [{ route: [{ destination: { ...destination('led-subset'), subset: 'any' } }] }]);
    await answeredBy('v2');
    // Another host that is held, which the VirtualService takes over.
    assert.deepEqual(await send('held-1'), [200, 'v1']);
    await edit(['edited', 'held-1'], route('led-alias'));
    await retry(async () => assert.deepEqual(await send('held-1'), [200, 'v2']));
    await mesh.config.remove('edited');
    await answeredBy('v1');
    await retry(async () => assert.deepEqual(await send('held-1'), [200, 'v1']));
  });
});

test('an edit of TCP that leads to a service without clusters refuses no connection', async () => {
  const { client, mesh } = shared.get();
  assert.equal(await greeting(client.address, TCP_PORT), 'v1');
  // One that there was at the start may have a cluster, if Envoy was slow.
  await mesh.config.apply('led-tcp', ...serviceAt('led-tcp', V1, LATE_TCP_PORT, 'tcp'));
  const led = clusterOf('led-tcp', LATE_TCP_PORT);
  await assertUnused(led);
  const seen: string[] = [];
  // Each connection succeeds, before and after an edit.
  const until = (isThere: () => Promise<boolean> | boolean) =>
    retry(async () => {
      seen.push(await greeting(client.address, TCP_PORT).catch(String));
      assert.ok(await isThere(), seen.at(-1));
    });
  const lead = async (host: string, port: number) => {
    const tcp = [{ route: [{ destination: destination(`${host}.${SUFFIX}`, port) }] }];
    await mesh.config.apply('tcp', resource('VirtualService', 'tcp', { hosts: ['tcp-a'], tcp }));
  };
  await lead('led-tcp', LATE_TCP_PORT);
  await until(async () => (await generatedClusters()).has(led));
  await lead('tcp-c', WEIGHTED_PORT);
  await until(() => seen.at(-1) === 'v2');
  assert.deepEqual([...new Set(seen)].sort(), ['v1', 'v2']);
});

test('a service that is deleted is unknown, and works when it is created again', async () => {
  const { client, mesh } = shared.get();
  const [known, unknown] = [await send('created'), await send('nowhere.example')];
  assert.deepEqual(
    [known, unknown],
    [
      [200, 'v1'],
      [502, undefined],
    ],
  );
  await mesh.config.apply('deleted', ...serviceAt('deleted', V1), ...serviceAt('absent', V1, ABSENT_PORT, 'tcp'));
  await retry(async () => assert.deepEqual(await send('deleted'), [200, 'v1']));
  assert.equal(await greeting(client.address, ABSENT_PORT), 'v1');
  await during(['created'], async () => {
    for (const [by, backend] of [
      ['v2', V2],
      ['v1', V1],
    ] as const) {
      await mesh.config.remove('deleted');
      await retry(async () => assert.deepEqual(await send('deleted'), unknown));
      await retry(() => assert.rejects(greeting(client.address, ABSENT_PORT)));
      const tcp = serviceAt('absent', V1, ABSENT_PORT, 'tcp');
      await mesh.config.apply('deleted', ...serviceAt('deleted', backend), ...tcp);
      await retry(async () => assert.deepEqual(await send('deleted'), [200, by]));
      await retry(async () => assert.equal(await greeting(client.address, ABSENT_PORT), 'v1'));
    }
  });
});

test('inbound requests reach a service without clusters to which an EnvoyFilter leads them', async () => {
  const { mesh } = shared.get();
  const address = mesh.address(42);
  const port = await freePort();
  await startEcho(owner, { name: 'own', address: '127.0.0.1', port });
  const ingress = [{ number: SERVER_PORT, protocol: 'HTTP', to: `127.0.0.1:${port}` }];
  const egress = [{ number: HTTP_PORT, protocol: 'HTTP' }];
  const ports = [{ name: 'http', port: SERVER_PORT }];
  await mesh.config.apply(
    'server',
    sidecar('server', { address, ingress, egress }),
    service('server', { clusterIP: '10.98.0.1', ports }),
    pod('server', { ip: address, labels: { app: 'server' } }),
    endpoints('server', { server: address }, ports),
  );
  const metadata = { SIDECAR_CONFIGURATION: 'on-demand' };
  await mesh.startProxy({ name: 'server', address, mode: 'delta', metadata });
  const target = { address, port: SERVER_PORT, host: 'server' };
  await retry(async () => assert.equal((await call(target)).by, 'own'));
  await assertUnused(clusterOf('led-inbound'));
  const cluster = clusterOf('led-inbound');
  const patch = { operation: 'MERGE', value: { route: { cluster } } };
  const configPatches = [{ applyTo: 'HTTP_ROUTE', match: { context: 'SIDECAR_INBOUND' }, patch }];
  const workloadSelector = { labels: { app: 'server' } };
  await mesh.config.apply('inbound', resource('EnvoyFilter', 'led-inbound', { workloadSelector, configPatches }));
  // The second backend names itself in another header.
  await retry(async () => assert.deepEqual(outcome(await sendHttp1(target)), [200, 'v2']));
});

test('while the control plane is killed and starts again, no request fails, and edits arrive', async () => {
  const { mesh } = shared.get();
  await assertUnused(...['first-killed', 'led-killed', 'held-2'].map((name) => clusterOf(name)));
  assert.deepEqual(await send('held-2'), [200, 'v1']);
  const held = ['known', 'held-2', 'split', 'many-7', `a.${STARS}`];
  await during(held, async () => {
    await mesh.discovery().kill();
    const first = send('first-killed');
    await mesh.config.apply('killed', virtualService('killed', ['held-2'], route('led-killed')));
    await mesh.restart();
    assert.deepEqual(await first, [200, 'v1']);
    await retry(async () => assert.deepEqual(await send('held-2'), [200, 'v2']));
  });
  assert.deepEqual(await send('idle-1'), [503, undefined]);
  await assertUnused(clusterOf('led-away'), clusterOf('idle-2'));
});

test('a proxy that connects again keeps what it has, and gets what was edited meanwhile', async () => {
  const { between, mesh } = shared.get();
  await assertUnused(...['first-away', 'led-away', 'led-away-too'].map((name) => clusterOf(name)));
  await during(['known', 'many-8'], async () => {
    between.use();
    between.cut();
    const first = send('first-away');
    await mesh.config.apply('killed', virtualService('killed', ['held-2'], route('led-away')));
    await mesh.config.apply('away', virtualService('away', ['known'], route('led-away-too')));
    between.use(mesh.discovery().ports.grpc);
    assert.deepEqual(await first, [200, 'v1']);
    await retry(async () => assert.deepEqual(await send('known'), [200, 'v2']));
  });
});

test('the next proxy of the workload has what the first one has used', async () => {
  const { between, client, mesh, startClient } = shared.get();
  const next = await startClient();
  await retry(async () => {
    const clusters = await next.admin('/clusters');
    for (const name of ['led-away', 'led-away-too', 'part-2', 'copies', 'many-49', 'created'])
      assert.ok(clusters.includes(`${clusterOf(name)}::added_via_api`), name);
  });
  await client.stop();
  // Nobody can be asked.
  between.use();
  between.cut();
  for (const host of ['known', 'held-2', 'split', 'created', ...numbered('many')])
    assert.equal((await send(host))[0], 200, host);
  between.use(mesh.discovery().ports.grpc);
  assert.deepEqual(await send('led-last'), [200, 'v2']);
  assert.ok((await generatedClusters()).size < IDLE / 2);
  shared.set({ ...shared.get(), client: next });
});

test('names without a service, and those of proxies that have gone, lead to no further virtual hosts', async () => {
  for (const round of ['first', 'second']) {
    for (let at = 0; at < 600; at += 50) {
      const names = Array.from({ length: 50 }, (_, index) => `${round}-${at + index}.unknown.example`);
      const answers = await Promise.all(names.map((name) => send(name)));
      assert.deepEqual([...new Set(answers.map(([status]) => status))], [502]);
    }
    const { client, startClient } = shared.get();
    if (round === 'second') break;
    await client.stop();
    shared.set({ ...shared.get(), client: await startClient() });
  }
  assert.deepEqual(await send('known'), [200, 'v2']);
  const hosts = await generatedHosts();
  const hostOf = (name: string) => `${HTTP_PORT}/${name}.${SUFFIX}:${HTTP_PORT}`;
  assert.deepEqual([hosts.has(hostOf('known')), hosts.has(hostOf('idle-0'))], [true, false]);
  const { mesh } = shared.get();
  const name = 'second-7.unknown.example';
  await mesh.config.apply('late-entry', starEntry(name, V1));
  await retry(async () => assert.deepEqual(await send(name), [200, 'v1']));
});
