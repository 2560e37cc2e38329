/** The proxy over gRPC: clients on its socket, a control plane that a test answers for. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../test/harness/eventually.ts';
import { freePorts, tempDir } from '../../../test/harness/files.ts';
import { XDS } from '../../core/xds-types.ts';
import { encodeFields } from '../../protobuf/wire/index.ts';
import { openGrpcClient } from '../grpc/index.ts';
import type { ControlPlane } from '../settings/control-plane.ts';
import { type AgentConnection, connectControlPlane, NAME_TABLE_TYPE } from './index.ts';
import { readResponse, type Variant, writeRequest } from './messages.ts';
import { type PeerStream, responseOf, startControlPlane, type TestControlPlane } from './testing/control-plane.ts';
import { XDS_PATHS } from './upstream.ts';

const NODE_ID = 'sidecar~192.0.2.1~web.shop~shop.svc.cluster.local';
/** The node of the agent's Envoy. */
const ENVOY = encodeFields([
  [1, NODE_ID],
  [6, 'envoy'],
]);
/** The node of an application. */
const APPLICATION = encodeFields([
  [1, NODE_ID],
  [6, 'gRPC Go'],
]);

const plain = (port: number): ControlPlane => ({ host: '127.0.0.1', port, tls: false, serverName: '' });

interface Proxy {
  readonly connection: AgentConnection;
  readonly socket: string;
  metric(name: string): number | undefined;
}

async function startProxy(
  context: TestContext,
  port: number,
  options: { readonly variant?: Variant; readonly save?: string } = {},
): Promise<Proxy> {
  const socket = join(await tempDir(context), 'XDS');
  const connection = await connectControlPlane({
    addresses: [plain(port)],
    secrets: undefined,
    node: { id: NODE_ID, cluster: 'web' },
    delta: options.variant !== 'sotw',
    local: { path: socket },
    socketMode: 0o600,
    hostTimeoutMs: 2_000,
    savePath: options.save ?? '',
    policyId: undefined,
    maxRequestBytes: 100_000,
    maxStreams: 8,
  });
  context.after(() => connection.close());
  const metric = (name: string) => connection.metrics().find((each) => each.name === name)?.value;
  return { connection, socket, metric };
}

interface Client {
  readonly received: Buffer[];
  /** What ended the stream. */
  readonly ended: { error?: string };
  send(bytes: Buffer): void;
  end(): void;
}

async function startClient(context: TestContext, { socket }: Proxy, variant: Variant = 'delta'): Promise<Client> {
  const grpc = await openGrpcClient(
    { address: { path: socket }, tls: undefined },
    { maxMessageBytes: 64 * 1024 * 1024 },
  );
  context.after(() => grpc.close());
  const stream = grpc.stream(XDS_PATHS[variant]);
  const client: Client = {
    received: [],
    ended: {},
    send: (bytes) => void stream.write(bytes),
    end: () => stream.cancel(),
  };
  stream.on('data', (bytes: Buffer) => client.received.push(bytes));
  stream.on('error', (error) => {
    client.ended.error = grpc.errorOf(error).message;
  });
  stream.on('end', () => {
    client.ended.error ??= 'OK';
  });
  return client;
}

const clusters = (node: Buffer, variant: Variant = 'delta') => writeRequest(variant, { typeUrl: XDS.cds.url, node });

function streamOf({ streams }: TestControlPlane, index: number): Promise<PeerStream> {
  return eventually(() => {
    const stream = streams[index];
    assert.ok(stream !== undefined && stream.requests.length > 0, 'no stream with a request');
    return stream;
  });
}

const cluster = (name: string, version: string, size = 10) =>
  [
    name,
    version,
    encodeFields([
      [1, name],
      [2, 'x'.repeat(size)],
    ]),
  ] as const;

async function lastNames({ received }: Client, count: number): Promise<string[]> {
  await eventually(() => assert.equal(received.length, count));
  return readResponse('delta', received.at(-1) ?? Buffer.alloc(0)).resources.map(({ name }) => name);
}

test('a response of tens of megabytes passes unchanged', async (t) => {
  const peer = await startControlPlane(t);
  const proxy = await startProxy(t, peer.port);
  const client = await startClient(t, proxy);
  client.send(clusters(ENVOY));
  const stream = await streamOf(peer, 0);
  const response = responseOf('delta', XDS.cds.url, [cluster('a', '1', 20_000_000)], { nonce: 'n' });
  stream.send(response);
  await eventually(() => assert.equal(client.received.length, 1));
  assert.ok(client.received[0]?.equals(response));
});

test('clients that send garbage, too much or too often are ended, and harm no other', async (t) => {
  const peer = await startControlPlane(t);
  const proxy = await startProxy(t, peer.port);
  const good = await startClient(t, proxy);
  good.send(clusters(ENVOY));
  const stream = await streamOf(peer, 0);

  const cases: readonly (readonly [Buffer, RegExp])[] = [
    [Buffer.from('garbage'), /not a protobuf message/],
    [writeRequest('delta', { typeUrl: XDS.cds.url }), /needs a node/],
    [writeRequest('delta', { typeUrl: '', node: APPLICATION }), /needs a type_url/],
    [Buffer.alloc(200_000), /100000/],
  ];
  for (const [bytes, message] of cases) {
    const bad = await startClient(t, proxy);
    bad.send(bytes);
    await eventually(() => assert.match(bad.ended.error ?? '', message));
  }
  const types = await startClient(t, proxy);
  for (let type = 0; type <= 64; type++)
    types.send(writeRequest('delta', { typeUrl: `type.googleapis.com/t${type}`, node: APPLICATION }));
  await eventually(() => assert.match(types.ended.error ?? '', /more than 64 types/));

  const many = await Promise.all(Array.from({ length: 10 }, () => startClient(t, proxy)));
  for (const each of many) each.send(clusters(APPLICATION));
  await eventually(() => {
    const refused = many.filter(({ ended }) => /more than 8 streams/.test(ended.error ?? ''));
    assert.equal(refused.length, 3);
  });
  stream.send(responseOf('delta', XDS.cds.url, [cluster('a', '1')], { nonce: 'n' }));
  assert.deepEqual(await lastNames(good, 1), ['a']);
});

for (const variant of ['delta', 'sotw'] as const) {
  test(`${variant}: the agent's own types use the stream of Envoy, which does not see them`, async (t) => {
    const peer = await startControlPlane(t);
    const proxy = await startProxy(t, peer.port, { variant });
    const tables: string[] = [];
    proxy.connection.subscribe({
      typeUrl: NAME_TABLE_TYPE,
      resourceNames: [],
      receive: ({ set }) => void tables.push(...[...set.values()].map((bytes) => Buffer.from(bytes).toString())),
    });
    const envoy = await startClient(t, proxy, variant);
    envoy.send(clusters(ENVOY, variant));
    const stream = await streamOf(peer, 0);
    await eventually(() =>
      assert.deepEqual(
        stream.requests.map(({ typeUrl }) => typeUrl),
        [XDS.cds.url, NAME_TABLE_TYPE],
      ),
    );
    stream.send(responseOf(variant, NAME_TABLE_TYPE, [['', '1', Buffer.from('names')]], { nonce: 'n' }));
    await eventually(() => assert.equal(stream.requests.at(-1)?.nonce, 'n'));
    assert.deepEqual([tables, envoy.received.length, peer.streams.length], [['names'], 0, 1]);

    // Without Envoy the agent opens a stream of its own, and leaves it when Envoy is there again.
    envoy.end();
    const own = await streamOf(peer, 1);
    assert.equal(own.requests[0]?.typeUrl, NAME_TABLE_TYPE);
    const next = await startClient(t, proxy, variant);
    next.send(clusters(ENVOY, variant));
    const last = await streamOf(peer, 2);
    await eventually(() => assert.equal(last.requests.length, 2));
    await eventually(() => assert.equal(own.closed, true));
  });
}

test("the agent's own types stay with the newest Envoy, even when the stream of an older one is replaced", async (t) => {
  const peer = await startControlPlane(t);
  const proxy = await startProxy(t, peer.port);
  const tables: string[] = [];
  proxy.connection.subscribe({
    typeUrl: NAME_TABLE_TYPE,
    resourceNames: [],
    receive: ({ set }) => void tables.push(...[...set.values()].map((bytes) => Buffer.from(bytes).toString())),
  });
  const types = ({ requests }: PeerStream) => requests.map(({ typeUrl }) => typeUrl);
  const table = (text: string, nonce: string) =>
    responseOf('delta', NAME_TABLE_TYPE, [['', nonce, Buffer.from(text)]], { nonce });
  const clients: PeerStream[] = [];
  for (const index of [0, 1]) {
    const envoy = await startClient(t, proxy);
    envoy.send(clusters(ENVOY));
    const stream = await streamOf(peer, index);
    await eventually(() => assert.deepEqual(types(stream), [XDS.cds.url, NAME_TABLE_TYPE]));
    clients.push(stream);
  }
  const [older, newer] = clients;
  assert.ok(older !== undefined && newer !== undefined);
  // The control plane still has the subscription on the stream of the older one.
  older.send(table('late', 'of-older'));
  older.end();
  const replaced = await streamOf(peer, 2);
  newer.send(table('names', 'of-newer'));
  await eventually(() => assert.equal(newer.requests.at(-1)?.nonce, 'of-newer'));
  assert.deepEqual(
    newer.requests.map(({ nonce }) => nonce),
    ['', '', 'of-newer'],
  );
  assert.deepEqual([tables, types(replaced)], [['names'], [XDS.cds.url]]);
});

test('another client than Envoy is not served from the snapshot, and does not change it', async (t) => {
  const [port = 0] = await freePorts(1);
  const peer = await startControlPlane(t, { port });
  const proxy = await startProxy(t, port);
  const envoy = await startClient(t, proxy);
  envoy.send(clusters(ENVOY));
  const application = await startClient(t, proxy);
  application.send(clusters(APPLICATION));
  await eventually(() => assert.equal(peer.streams.filter(({ requests }) => requests.length > 0).length, 2));
  for (const [index, stream] of peer.streams.entries())
    stream.send(responseOf('delta', XDS.cds.url, [cluster(`of-${index}`, '1')], { nonce: 'n' }));
  const [ofEnvoy] = await lastNames(envoy, 1);
  await lastNames(application, 1);
  for (const client of [envoy, application]) client.send(writeRequest('delta', { typeUrl: XDS.cds.url, nonce: 'n' }));
  await eventually(() => assert.equal(proxy.metric('xds_proxy_snapshot_age_seconds'), 0));
  peer.stop();
  envoy.end();
  application.end();

  const restarted = await startClient(t, proxy);
  const other = await startClient(t, proxy);
  other.send(clusters(APPLICATION));
  restarted.send(clusters(ENVOY));
  assert.deepEqual(await lastNames(restarted, 1), [ofEnvoy]);
  assert.equal(other.received.length, 0);
  // The agent reconnects, and reports what Envoy has.
  restarted.send(
    writeRequest('delta', {
      typeUrl: XDS.cds.url,
      nonce: readResponse('delta', restarted.received[0] ?? Buffer.alloc(0)).nonce,
    }),
  );
  const again = await startControlPlane(t, { port });
  await eventually(() => {
    const [first] = again.streams.flatMap(({ requests }) =>
      requests.filter(({ initialVersions }) => initialVersions.size > 0),
    );
    assert.deepEqual([...(first?.initialVersions ?? [])], [[ofEnvoy, '1']]);
  });
});

test('a snapshot that cannot be saved disturbs nothing, and is counted', async (t) => {
  const peer = await startControlPlane(t);
  // A folder that cannot be made: /proc takes no files.
  const proxy = await startProxy(t, peer.port, { save: '/proc/no-such-folder/snapshot' });
  const client = await startClient(t, proxy);
  client.send(clusters(ENVOY));
  const stream = await streamOf(peer, 0);
  stream.send(responseOf('delta', XDS.cds.url, [cluster('a', '1')], { nonce: 'n' }));
  await lastNames(client, 1);
  client.send(writeRequest('delta', { typeUrl: XDS.cds.url, nonce: 'n' }));
  await eventually(() => assert.equal(proxy.metric('xds_proxy_snapshot_write_failures_total'), 1));
  stream.send(responseOf('delta', XDS.cds.url, [cluster('b', '1')], { nonce: 'm' }));
  assert.deepEqual(await lastNames(client, 2), ['b']);
});

test('the socket is removed at the end', async (t) => {
  const proxy = await startProxy(t, 1);
  assert.ok(existsSync(proxy.socket));
  await proxy.connection.close();
  assert.ok(!existsSync(proxy.socket));
});
