/**
 * Sidecars that ask for what they use, with real Envoys: the first request to a service in each protocol, many first
 * requests at once, a control plane that is slow, cut off or killed, and the same requests with everything.
 */
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { before, test } from 'node:test';
import { type Balancer, eventually as retry, startBalancer, startTcpEcho } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { type MeshProxy, planMesh, sidecar, startMesh, syncStatus, type TestMesh } from './support/mesh.ts';
import { type HttpBackend, startGrpcBackend, startHttpBackend, startTlsBackend } from './support/protocol-backend.ts';
import { grpcEcho, type Received, sendHttp1, sendHttp2, webSocketEcho } from './support/protocol-calls.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { greeting, tlsGreeting } from './support/traffic.ts';
import { HTTP_PORT } from './support/versions.ts';

const TCP_PORT = 7490;
const WEIGHTED_PORT = 7491;
const LATE_TCP_PORT = 7493;
const TLS_PORT = 7443;
const DNS_PORT = 7453;
const SUFFIX = 'default.svc.cluster.local';
/** First requests at once. */
const MANY = 50;
const LARGE = 20_000_000;

const owner = suiteOwner();
const address = planMesh();
const [V1, V2, GRPC, SILENT] = [address(21), address(22), address(23), address(24)];

interface Suite {
  readonly mesh: TestMesh;
  /** Between proxies and the control plane. */
  readonly between: Balancer;
  /** Has everything. */
  readonly whole: MeshProxy;
  /** Has what it asked for. */
  readonly client: MeshProxy;
  readonly v1: HttpBackend;
  readonly v2: HttpBackend;
}

const shared = lazy<Suite>();

let addresses = 0;

/** A service whose cluster has this name, and one endpoint. */
function serviceAt(name: string, at: string, port = HTTP_PORT, portName = 'http'): Document[] {
  const ports = [{ name: portName, port }];
  addresses++;
  const clusterIP = `10.99.${addresses >> 8}.${addresses & 255}`;
  return [service(name, { clusterIP, ports }), endpoints(name, [at], ports)];
}

const destination = (host: string, port = HTTP_PORT) => ({ host, port: { number: port } });

function tlsHost(name: string, at: string): Document {
  return resource('ServiceEntry', name, {
    hosts: [`${name}.example`],
    location: 'MESH_EXTERNAL',
    resolution: 'STATIC',
    ports: [{ number: TLS_PORT, name: 'tls', protocol: 'TLS' }],
    endpoints: [{ address: at }],
  });
}

const numbered = (name: string) => Array.from({ length: MANY }, (_, at) => `${name}-${at}`);

const HTTP_SERVICES = [
  ...['http2', 'websocket', 'up-1', 'up-2', 'down-1', 'down-2', 'same', 'known', 'slow', 'split', 'mirrored'],
  ...['away', 'killed', 'part-1', 'late-1', 'late-2'],
  ...numbered('many'),
];

function services(): Document[] {
  return [
    ...HTTP_SERVICES.flatMap((name) => serviceAt(name, V1)),
    ...['copies', 'part-2'].flatMap((name) => serviceAt(name, V2)),
    ...['unary', 'stream'].flatMap((name) => serviceAt(name, GRPC, HTTP_PORT, 'grpc')),
    ...serviceAt('tcp-a', V1, TCP_PORT, 'tcp'),
    ...serviceAt('tcp-b', V1, WEIGHTED_PORT, 'tcp'),
    ...serviceAt('tcp-c', V2, WEIGHTED_PORT, 'tcp'),
    ...serviceAt('late-tcp', V1, LATE_TCP_PORT, 'tcp'),
    ...['tls-a', 'tls-b'].map((name, at) => tlsHost(name, at === 0 ? V1 : V2)),
    resource('VirtualService', 'mirrored', {
      hosts: ['mirrored'],
      http: [{ route: [{ destination: destination('mirrored') }], mirror: destination('copies') }],
    }),
    resource('VirtualService', 'split', {
      hosts: ['split'],
      http: [{ route: ['part-1', 'part-2'].map((host) => ({ destination: destination(host), weight: 50 })) }],
    }),
    resource('VirtualService', 'tcp-b', {
      hosts: ['tcp-b'],
      tcp: [
        { route: ['tcp-b', 'tcp-c'].map((host) => ({ destination: destination(host, WEIGHTED_PORT), weight: 50 })) },
      ],
    }),
  ];
}

const egress = [
  { number: HTTP_PORT, protocol: 'HTTP' },
  { number: TCP_PORT, protocol: 'TCP', hosts: [`./tcp-a.${SUFFIX}`] },
  { number: WEIGHTED_PORT, protocol: 'TCP', hosts: [`./tcp-b.${SUFFIX}`] },
  { number: LATE_TCP_PORT, protocol: 'TCP', hosts: [`./late-tcp.${SUFFIX}`] },
  // Imported, so that a route can lead there.
  { number: 7492, protocol: 'TCP', hosts: [`./tcp-c.${SUFFIX}`] },
  { number: TLS_PORT, protocol: 'TLS', hosts: ['./tls-a.example', './tls-b.example'] },
];

/** A DNS server that never answers. */
async function startSilentDns(): Promise<void> {
  const socket = createSocket('udp4');
  await new Promise<void>((resolve) => void socket.bind(DNS_PORT, SILENT, resolve));
  owner.after(() => void socket.close());
}

before(async () => {
  const [v1, v2] = await Promise.all([
    startHttpBackend(owner, { name: 'v1', address: V1, port: HTTP_PORT }),
    startHttpBackend(owner, { name: 'v2', address: V2, port: HTTP_PORT }),
    startGrpcBackend(owner, { address: GRPC, port: HTTP_PORT }),
    startTcpEcho(owner, { name: 'v1', address: V1, port: TCP_PORT }),
    startTcpEcho(owner, { name: 'v1', address: V1, port: WEIGHTED_PORT }),
    startTcpEcho(owner, { name: 'v1', address: V1, port: LATE_TCP_PORT }),
    startTcpEcho(owner, { name: 'v2', address: V2, port: WEIGHTED_PORT }),
    startTlsBackend(owner, { name: 'v1', address: V1, port: TLS_PORT }),
    startTlsBackend(owner, { name: 'v2', address: V2, port: TLS_PORT }),
    startSilentDns(),
  ]);
  const between = await startBalancer(owner);
  const planned = [
    { name: 'client-whole', address: address(40), metadata: { SIDECAR_CONFIGURATION: 'all' } },
    { name: 'client-asking', address: address(41), metadata: { SIDECAR_CONFIGURATION: 'learned' } },
  ];
  const mesh = await startMesh(owner, address, {
    balancer: between,
    env: { CTL_DEBOUNCE_AFTER: '10ms' },
    files: {
      clients: planned.map((client) => sidecar(client.name, { address: client.address, egress })),
      services: services(),
    },
  });
  const dnsServer = { address: SILENT, port: DNS_PORT };
  const started = planned.map((each) => mesh.startProxy({ ...each, mode: 'delta', dnsServer }));
  const [whole, client] = await Promise.all(started);
  assert.ok(whole && client);
  shared.set({ mesh, between, whole, client, v1, v2 });
});

const at = (proxy: MeshProxy, host: string, path = '/') => ({ address: proxy.address, port: HTTP_PORT, host, path });

const outcome = ({ status, by }: Received) => [status, by];

/** Names of the outbound clusters of an Envoy. */
async function clustersOf(proxy: MeshProxy): Promise<readonly string[]> {
  const lines = (await proxy.admin('/clusters')).split('\n');
  return lines.flatMap((line) => /^(outbound\|[^:]*)::added_via_api/.exec(line)?.[1] ?? []);
}

const clusterOf = (name: string, port = HTTP_PORT) => `outbound|${port}||${name}.${SUFFIX}`;

async function assertUnknown(...names: readonly string[]): Promise<void> {
  const known = await clustersOf(shared.get().client);
  for (const name of names) assert.ok(!known.includes(clusterOf(name)), name);
}

/** The control plane has sent the client all that it asked for. */
async function synced(): Promise<void> {
  await retry(async () => {
    const line = (await syncStatus(shared.get().mesh.discovery())).find(({ proxy }) =>
      String(proxy).startsWith('client-asking'),
    );
    assert.equal(line?.cluster_state, 'SYNCED');
    assert.equal(line?.virtual_host_state, 'SYNCED');
  });
}

test('first requests in HTTP/2 and gRPC, and a first WebSocket, reach their services', async () => {
  const { client } = shared.get();
  await assertUnknown('http2', 'unary', 'stream', 'websocket');
  assert.deepEqual(outcome(await sendHttp2(at(client, 'http2'))), [200, 'v1']);
  assert.deepEqual(await grpcEcho('unary', at(client, 'unary'), ['one']), ['one']);
  assert.deepEqual(await grpcEcho('stream', at(client, 'stream'), ['one', 'two', 'three']), ['one', 'two', 'three']);
  assert.equal(await webSocketEcho(at(client, 'websocket'), 'hello'), 'hello');
});

test('large bodies of first requests, and of their answers, arrive whole in HTTP/1.1 and HTTP/2', async () => {
  const { client } = shared.get();
  await assertUnknown('up-1', 'up-2', 'down-1', 'down-2');
  const up = [sendHttp1({ ...at(client, 'up-1'), bytes: LARGE }), sendHttp2({ ...at(client, 'up-2'), bytes: LARGE })];
  for (const { status, sent } of await Promise.all(up)) assert.deepEqual([status, sent], [200, LARGE]);
  const path = `/?bytes=${LARGE}`;
  const down = [sendHttp1(at(client, 'down-1', path)), sendHttp2(at(client, 'down-2', path))];
  for (const { status, bytes } of await Promise.all(down)) assert.deepEqual([status, bytes], [200, LARGE]);
});

test('the mirror of a first request gets its copy, and all destinations of weighted routes get theirs', async () => {
  const { client, v2 } = shared.get();
  await assertUnknown('mirrored', 'copies', 'split', 'part-1', 'part-2');
  assert.deepEqual(outcome(await sendHttp1(at(client, 'mirrored', '/first'))), [200, 'v1']);
  await retry(() => assert.ok(v2.paths.includes('/first')));
  const answers = await Promise.all(Array.from({ length: 40 }, () => sendHttp1(at(client, 'split'))));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  assert.deepEqual([...new Set(answers.map(({ by }) => by))].sort(), ['v1', 'v2']);
});

test('first connections over TCP, also to weighted destinations, and over TLS reach their services', async () => {
  const { client } = shared.get();
  const clusters = [clusterOf('tcp-a', TCP_PORT), ...['b', 'c'].map((name) => clusterOf(`tcp-${name}`, WEIGHTED_PORT))];
  clusters.push(...['tls-a', 'tls-b'].map((name) => `outbound|${TLS_PORT}||${name}.example`));
  const before = await clustersOf(client);
  for (const cluster of clusters) assert.ok(!before.includes(cluster), cluster);
  assert.equal(await greeting(client.address, TCP_PORT), 'v1');
  const names = await Promise.all(Array.from({ length: 40 }, () => greeting(client.address, WEIGHTED_PORT)));
  assert.deepEqual([...new Set(names)].sort(), ['v1', 'v2']);
  assert.equal(await tlsGreeting(client.address, TLS_PORT, 'tls-a.example'), 'v1');
  assert.equal(await tlsGreeting(client.address, TLS_PORT, 'tls-b.example'), 'v2');
  const after = await clustersOf(client);
  for (const cluster of clusters) assert.ok(after.includes(cluster), cluster);
});

test('first requests at once, to one service and to many, succeed', async () => {
  const { client } = shared.get();
  await assertUnknown('same', ...numbered('many'));
  const hosts = [...numbered('many'), ...numbered('many').map(() => 'same')];
  const answers = await Promise.all(
    hosts.map((host, index) => (index % 2 === 0 ? sendHttp1 : sendHttp2)(at(client, host))),
  );
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
});

test('a deleted service is answered as with everything, and works when it is created again', async () => {
  const { client, mesh, whole } = shared.get();
  await mesh.config.apply('deleted', ...serviceAt('deleted', V1));
  await retry(async () => assert.deepEqual(outcome(await sendHttp1(at(whole, 'deleted'))), [200, 'v1']));
  assert.deepEqual(outcome(await sendHttp1(at(client, 'deleted'))), [200, 'v1']);
  for (const backend of [V2, V1]) {
    await mesh.config.remove('deleted');
    await retry(async () => {
      const [found, expected] = [await sendHttp1(at(client, 'deleted')), await sendHttp1(at(whole, 'deleted'))];
      assert.notEqual(expected.status, 200);
      assert.deepEqual(outcome(found), outcome(expected));
    });
    await mesh.config.apply('deleted', ...serviceAt('deleted', backend));
    const by = backend === V1 ? 'v1' : 'v2';
    await retry(async () => assert.deepEqual(outcome(await sendHttp1(at(client, 'deleted'))), [200, by]));
  }
});

test('with a slow control plane first requests wait, and succeed', async () => {
  const { between, client } = shared.get();
  await assertUnknown('slow');
  between.delay(100);
  try {
    assert.deepEqual(outcome(await sendHttp1(at(client, 'slow'))), [200, 'v1']);
  } finally {
    between.delay(0);
  }
});

test('while a host name of another service does not resolve, first requests and connections succeed', async () => {
  const { client, mesh } = shared.get();
  await assertUnknown('late-1', 'late-2');
  const warming = async (count: number) =>
    assert.deepEqual(await client.stats('warming_clusters$'), { 'cluster_manager.warming_clusters': count });
  const ports = [{ number: HTTP_PORT, name: 'http', protocol: 'HTTP' }];
  const unresolved = { hosts: ['unresolved.example'], location: 'MESH_EXTERNAL', resolution: 'DNS', ports };
  await mesh.config.apply('unresolved', resource('ServiceEntry', 'unresolved', unresolved));
  // Envoy neither answers clusters nor asks for any meanwhile.
  await retry(() => warming(1));
  for (const name of ['late-1', 'late-2']) assert.deepEqual(outcome(await sendHttp1(at(client, name))), [200, 'v1']);
  assert.equal(await greeting(client.address, LATE_TCP_PORT), 'v1');
  await warming(1);
  await mesh.config.remove('unresolved');
  await retry(() => warming(0));
  await synced();
});

test('cut off from the control plane, services in use work, and a first request waits for it', async () => {
  const { between, client, mesh } = shared.get();
  await assertUnknown('away');
  assert.deepEqual(outcome(await sendHttp1(at(client, 'known'))), [200, 'v1']);
  const traffic = startTraffic([at(client, 'known')]);
  between.use();
  between.cut();
  const first = sendHttp1(at(client, 'away'));
  await traffic.more(20);
  between.use(mesh.discovery().ports.grpc);
  assert.deepEqual(outcome(await first), [200, 'v1']);
  assert.deepEqual(await traffic.stop(), []);
});

test('while the control plane is killed and starts again, services in use work', async () => {
  const { client, mesh } = shared.get();
  const had = await clustersOf(client);
  await assertUnknown('killed');
  const traffic = startTraffic([at(client, 'known')]);
  await mesh.discovery().kill();
  const first = sendHttp1(at(client, 'killed'));
  await traffic.more(20);
  await mesh.restart();
  assert.deepEqual(outcome(await first), [200, 'v1']);
  await synced();
  assert.deepEqual(await traffic.stop(), []);
  const has = new Set(await clustersOf(client));
  assert.deepEqual(
    had.filter((name) => !has.has(name)),
    [],
  );
});
