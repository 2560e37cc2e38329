/**
 * Sidecars that ask for what they use, with real Envoys: the first request to a service in each protocol, many first
 * requests at once, a control plane that is slow, cut off or killed, and the same requests with everything.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually as retry } from '../harness/index.ts';
import { resource } from './support/config.ts';
import { type MeshProxy, syncStatus } from './support/mesh.ts';
import {
  ABSENT_PORT,
  LATE_TCP_PORT,
  numbered,
  type OnDemandMesh,
  REPLAYED,
  SUFFIX,
  serviceAt,
  startOnDemandMesh,
  TCP_PORT,
  TLS_PORT,
  V1,
  V2,
  WEIGHTED_PORT,
} from './support/on-demand-mesh.ts';
import { grpcEcho, type Received, sendHttp1, sendHttp2, webSocketEcho } from './support/protocol-calls.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { greeting, tlsGreeting } from './support/traffic.ts';
import { type Edit, type Sent, trafficLog } from './support/traffic-log.ts';
import { HTTP_PORT } from './support/versions.ts';

const LARGE = 20_000_000;

const owner = suiteOwner();
const shared = lazy<OnDemandMesh>();

before(async () => {
  shared.set(await startOnDemandMesh(owner));
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

test('connections to a service that does not exist are closed without a wait, and succeed when it is created', async () => {
  const { client, mesh } = shared.get();
  const closed = () => assert.rejects(greeting(client.address, ABSENT_PORT));
  for (let round = 0; round < 3; round++) {
    for (let count = 0; count < 3; count++) await closed();
    await mesh.config.apply('absent', ...serviceAt('absent', V1, ABSENT_PORT, 'tcp'));
    await retry(async () => assert.equal(await greeting(client.address, ABSENT_PORT), 'v1'));
    await mesh.config.remove('absent');
    await retry(closed);
  }
  const timeouts = await client.stats('on_demand_cluster_timeout$');
  assert.ok(Object.keys(timeouts).some((name) => name.includes('absent')));
  assert.deepEqual([...new Set(Object.values(timeouts))], [0]);
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

test('while a host name does not resolve, first requests succeed, also when the control plane restarts', async () => {
  const { client, mesh } = shared.get();
  await assertUnknown('late-1', 'late-2', 'late-3', 'late-4');
  const warming = async (count: number) =>
    assert.deepEqual(await client.stats('warming_clusters$'), { 'cluster_manager.warming_clusters': count });
  const ports = [{ number: HTTP_PORT, name: 'http', protocol: 'HTTP' }];
  const unresolved = { hosts: ['unresolved.example'], location: 'MESH_EXTERNAL', resolution: 'DNS', ports };
  await mesh.config.apply('unresolved', resource('ServiceEntry', 'unresolved', unresolved));
  // Envoy neither answers clusters nor asks for any meanwhile.
  await retry(() => warming(1));
  for (const name of ['late-1', 'late-2']) assert.deepEqual(outcome(await sendHttp1(at(client, name))), [200, 'v1']);
  assert.equal(await greeting(client.address, LATE_TCP_PORT), 'v1');
  // On a new stream, Envoy does not report the clusters that it has before that.
  await mesh.discovery().kill();
  await mesh.restart();
  for (const name of ['late-3', 'late-4']) assert.deepEqual(outcome(await sendHttp1(at(client, name))), [200, 'v1']);
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

/** What a proxy answered, in a form that can be compared. */
async function answerOf(proxy: MeshProxy, { protocol, host, path, bytes }: Sent): Promise<unknown> {
  const sending = { ...at(proxy, host, path), bytes };
  const failed = (error: unknown) => String(error);
  switch (protocol) {
    case 'http1':
    case 'http2': {
      const { status, by, location } = await (protocol === 'http1' ? sendHttp1 : sendHttp2)(sending);
      return [status, by, location];
    }
    case 'websocket':
      return await webSocketEcho(sending, 'hello').catch(failed);
    case 'grpc':
      return await grpcEcho('unary', sending, ['hello']).catch(failed);
    case 'tcp':
      return await greeting(proxy.address, TCP_PORT);
    case 'tls':
      return await tlsGreeting(proxy.address, TLS_PORT, host).catch(() => 'refused');
  }
}

/** Applies an edit, and waits until both proxies have it: the marker comes with it. */
async function edit({ documents, number }: Edit): Promise<void> {
  const { client, mesh, whole } = shared.get();
  const uri = `/edit-${number}`;
  const marker = resource('VirtualService', 'marker', { hosts: ['marker'], http: [{ redirect: { uri } }] });
  await mesh.config.apply('replayed', ...documents, marker);
  await retry(async () => {
    for (const proxy of [client, whole]) assert.ok((await sendHttp1(at(proxy, 'marker'))).location?.endsWith(uri));
    for (const line of await syncStatus(mesh.discovery()))
      for (const state of ['cluster_state', 'virtual_host_state']) assert.equal(line[state], 'SYNCED');
  });
}

test('a log of requests and edits has the same outcomes as with everything', async () => {
  const { client, whole } = shared.get();
  const different: unknown[] = [];
  for (const entry of trafficLog({ services: REPLAYED, seed: 31, entries: 200 })) {
    if ('documents' in entry) await edit(entry);
    else {
      const [found, expected] = await Promise.all([answerOf(client, entry), answerOf(whole, entry)]);
      if (JSON.stringify(found) !== JSON.stringify(expected)) different.push({ entry, found, expected });
    }
  }
  assert.deepEqual(different, []);
});
