import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import type { ClientStreamHandler, StreamTls } from '../../grpc/index.ts';
import { BY_COLLECTION, BY_XDS_TYPE, RESOURCE_TYPE_URL } from '../../mcp/index.ts';
import { envoy, istio } from '../../protobuf/index.ts';
import { createConfigSource, type FollowedTls } from './config-source.ts';
import { McpSink } from './mcp-sink.ts';
import { ReceivedDocuments } from './received.ts';
import { EventStore, LIMITS, requestOf, resourcesMessage } from './testing/exchange.ts';
import { XdsClient } from './xds-client.ts';

const COLLECTIONS = [...BY_COLLECTION.keys()];
const ROUTES = 'istio/networking/v1alpha3/virtualservices';
const STREAM = {
  maxMessageBytes: 1000,
  streamWindow: 65_535,
  connectionWindow: 65_535,
  connectTimeoutMs: 1000,
  keepaliveMs: 1000,
  keepaliveTimeoutMs: 1000,
};

interface Opened {
  readonly handler: ClientStreamHandler;
  readonly tls: StreamTls | undefined;
  readonly sent: Uint8Array[];
  closed: boolean;
}

/** A source whose streams the test plays. */
function played(tls?: FollowedTls, xds = false) {
  const clock = fakeClock();
  const [streams, lines, store]: [Opened[], string[], EventStore] = [[], [], new EventStore()];
  let reconnections = 0;
  const log = (line: string): void => void lines.push(line);
  const options = { source: 'mcp://far', limits: LIMITS, groups: xds ? BY_XDS_TYPE : BY_COLLECTION, now: clock.now };
  const documents = new ReceivedDocuments({ ...options, maxBytes: 100_000 });
  const source = createConfigSource({
    id: 'mcp://far',
    cluster: 'c',
    host: 'far',
    port: 1,
    protocol: xds ? new XdsClient({ documents, node: 'n' }) : new McpSink({ documents, node: 'n', incremental: false }),
    stream: STREAM,
    tls,
    onReconnect: () => {
      reconnections += 1;
    },
    clock,
    random: () => 0,
    log: { debug: log, info: log, warn: log, error: log },
    openStream: (target, _options, handler) => {
      const opened: Opened = { handler, tls: target.tls, sent: [], closed: false };
      streams.push(opened);
      return {
        send: (message) => void opened.sent.push(message),
        close: () => {
          opened.closed = true;
        },
      };
    },
  });
  source.start({ apply: (events) => store.apply(events), replace: () => assert.fail(), changing: () => {} });
  let synced = false;
  void source.synced.then(() => {
    synced = true;
  });
  return { clock, streams, lines, store, source, isSynced: () => synced, reconnections: () => reconnections };
}

function answer({ handler }: Opened, collection: string, names: readonly string[] = []): void {
  const resources = names.map((name) => ({
    metadata: { name, version: '1' },
    body: { typeUrl: 'type.googleapis.com/istio.networking.v1alpha3.VirtualService', value: ROUTE },
  }));
  handler.message(resourcesMessage({ collection, nonce: `n-${collection}`, resources }));
}

/** `hosts: [a.example.com]`, `http: [{redirect: {uri: /b}}]` */
const ROUTE = Uint8Array.from([
  ...[0x0a, 13, ...Buffer.from('a.example.com')],
  ...[0x1a, 6, 0x1a, 4, 0x0a, 2, ...Buffer.from('/b')],
]);

async function first(streams: readonly Opened[], index = 0): Promise<Opened> {
  await new Promise((resolve) => setImmediate(resolve));
  const stream = streams[index];
  assert.ok(stream, `no stream ${index}`);
  return stream;
}

test('a source is synced when it has answered for every collection, and the log names those that are missing', async () => {
  const { clock, streams, lines, store, source, isSynced } = played();
  const stream = await first(streams);
  stream.handler.opened();
  assert.deepEqual(
    stream.sent.map((bytes) => requestOf(bytes).collection),
    COLLECTIONS,
  );
  for (const collection of COLLECTIONS.slice(1)) answer(stream, collection, collection === ROUTES ? ['shop/web'] : []);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/web']);
  await clock.advance(10_000);
  assert.equal(isSynced(), false);
  assert.match(lines.join('\n'), /has not answered for istio\/security\/v1beta1\/authorizationpolicies; .*not ready/);
  const health = source.health();
  assert.ok(!health.ok && health.since === undefined && /authorizationpolicies/.test(health.reason));
  answer(stream, COLLECTIONS[0] ?? '');
  await clock.advance(0);
  assert.ok(isSynced());
  assert.deepEqual(source.health(), { ok: true });
});

test('a stream that is lost is opened again, later after each failure, and everything stays in force', async () => {
  const { clock, streams, lines, store, source, reconnections } = played();
  let stream = await first(streams);
  stream.handler.opened();
  for (const collection of COLLECTIONS) answer(stream, collection, collection === ROUTES ? ['shop/web'] : []);
  const lost = new CtlError('unavailable', 'far:1 cannot be reached: connection refused');
  const waits: (number | undefined)[] = [];
  for (let failures = 1; failures <= 7; failures++) {
    stream.handler.ended(lost);
    // The last timer: an earlier one is that of the log's limit.
    waits.push(clock.pending().at(-1));
    await clock.advance(waits.at(-1) ?? 0);
    stream = await first(streams, failures);
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
  assert.equal(lines.filter((line) => line.includes('connection refused')).length, 1);
  const health = source.health();
  assert.ok(!health.ok && health.since === 0);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/web']);
  stream.handler.opened();
  assert.equal(reconnections(), 1);
  // The first answer ends the outage; what the source no longer has goes with the answer of its collection.
  answer(stream, COLLECTIONS[0] ?? '');
  assert.deepEqual(source.health(), { ok: true });
  assert.equal(store.documents.size, 1);
  answer(stream, ROUTES);
  assert.equal(store.documents.size, 0);
});

test('a response that needs too much memory is refused as a whole, and what was in force stays', async () => {
  const { streams, store, source } = played();
  const stream = await first(streams);
  stream.handler.opened();
  for (const collection of COLLECTIONS) answer(stream, collection, collection === ROUTES ? ['shop/web'] : []);
  const many = Array.from({ length: 200 }, (_, index) => `shop/web-${index}`);
  answer(stream, ROUTES, many);
  const health = source.health();
  assert.match(
    health.ok ? '' : health.reason,
    /its documents need \d+ bytes, of which a source may have at most 100000/,
  );
  const { errorDetail } = requestOf(stream.sent.at(-1) ?? new Uint8Array());
  assert.match(errorDetail?.message ?? '', /at most 100000/);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/web']);
});

test('a document with a mistake is refused with its reason, and the others of the response are in force', async () => {
  const { streams, store } = played();
  const stream = await first(streams);
  stream.handler.opened();
  answer(stream, ROUTES, ['shop/web', 'web']);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/web']);
  assert.deepEqual([...store.problems], ['VirtualService#web']);
  const { errorDetail, responseNonce } = requestOf(stream.sent.at(-1) ?? new Uint8Array());
  assert.match(errorDetail?.message ?? '', /^refused documents: web: metadata.name: expected the name NAMESPACE\/NAME/);
  assert.equal(responseNonce, `n-${ROUTES}`);
  answer(stream, ROUTES, ['shop/web']);
  assert.equal(store.problems.size, 0);
  assert.equal(requestOf(stream.sent.at(-1) ?? new Uint8Array()).errorDetail, null);
});

test('a response with documents that have no name removes nothing, and the source is not healthy', async () => {
  const { streams, store, source } = played();
  const stream = await first(streams);
  stream.handler.opened();
  for (const collection of COLLECTIONS) answer(stream, collection, collection === ROUTES ? ['shop/a', 'shop/b'] : []);
  answer(stream, ROUTES, ['shop/a', '']);
  const { errorDetail } = requestOf(stream.sent.at(-1) ?? new Uint8Array());
  assert.match(errorDetail?.message ?? '', /1 resources without metadata\.name/);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/a', 'VirtualService/shop/b']);
  // Another collection that is answered does not hide it.
  answer(stream, COLLECTIONS[0] ?? '');
  const health = source.health();
  assert.match(health.ok ? '' : health.reason, /virtualservices: 1 resources without metadata\.name/);
  answer(stream, ROUTES, ['shop/a']);
  assert.deepEqual(source.health(), { ok: true });
  assert.deepEqual([...store.documents.keys(), ...store.problems], ['VirtualService/shop/a']);
});

test('a server of xDS that changes its encoding removes nothing, and the source is not healthy', async () => {
  const { DiscoveryRequest, DiscoveryResponse } = envoy.service.discovery.v3;
  const { streams, store, source } = played(undefined, true);
  const stream = await first(streams);
  stream.handler.opened();
  const type = 'networking.istio.io/v1/VirtualService';
  const body = { typeUrl: 'type.googleapis.com/istio.networking.v1alpha3.VirtualService', value: ROUTE };
  const value = istio.mcp.v1alpha1.Resource.encode({ metadata: { name: 'shop/web', version: '1' }, body }).finish();
  const send = (typeUrl: string, resources: { typeUrl: string; value: Uint8Array }[]): void => {
    const response = { typeUrl, versionInfo: '1', nonce: `n-${typeUrl}`, resources };
    stream.handler.message(Buffer.from(DiscoveryResponse.encode(response).finish()));
  };
  for (const each of BY_XDS_TYPE.keys()) send(each, each === type ? [{ typeUrl: RESOURCE_TYPE_URL, value }] : []);
  assert.deepEqual(source.health(), { ok: true });
  send(type, [{ typeUrl: 'type.googleapis.com/google.protobuf.Struct', value: new Uint8Array() }]);
  const { errorDetail, responseNonce } = DiscoveryRequest.decode(stream.sent.at(-1) ?? new Uint8Array());
  assert.match(errorDetail?.message ?? '', /1 resources that are not .*istio\.mcp\.v1alpha1\.Resource/);
  assert.equal(responseNonce, `n-${type}`);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/web']);
  const health = source.health();
  assert.match(health.ok ? '' : health.reason, /v1\/VirtualService: 1 resources that are not/);
  send(type, []);
  assert.deepEqual([source.health(), store.documents.size], [{ ok: true }, 0]);
});

test('a nonce that is too long is refused', async () => {
  const { streams } = played();
  const { handler } = await first(streams);
  handler.opened();
  const [collection, nonce] = [ROUTES, 'n'.repeat(1025)];
  assert.throws(() => handler.message(resourcesMessage({ collection, nonce })), /a nonce has 1025 characters/);
});

test('reasons that a server varies have a few lines in the log', async () => {
  const { streams, lines } = played();
  const stream = await first(streams);
  stream.handler.opened();
  for (let index = 0; index < 100; index++) answer(stream, `collection ${index}`);
  assert.equal(lines.filter((line) => line.includes('was not requested')).length, 5);
});

test('a renewed certificate opens another connection at once', async () => {
  let renewed = (): void => {};
  let serverName = 'one';
  const { streams, store } = played({
    current: async () => ({ roots: undefined, client: undefined, serverName }),
    onChange: (listener) => {
      renewed = listener;
      return () => {};
    },
  });
  const stream = await first(streams);
  assert.equal(stream.tls?.serverName, 'one');
  stream.handler.opened();
  answer(stream, ROUTES, ['shop/web']);
  serverName = 'two';
  renewed();
  const next = await first(streams, 1);
  assert.deepEqual([stream.closed, next.tls?.serverName, store.documents.size], [true, 'two', 1]);
});

test('a certificate that cannot be read is tried again', async () => {
  let fault: CtlError | undefined = new CtlError('failed_precondition', 'tlsSettings.privateKey: /k cannot be read');
  const { clock, streams, lines } = played({
    current: () =>
      fault === undefined ? Promise.resolve({ roots: '', client: undefined, serverName: '' }) : Promise.reject(fault),
    onChange: () => () => {},
  });
  await clock.advance(0);
  assert.deepEqual(lines, [
    'mcp://far: tlsSettings.privateKey: /k cannot be read; its documents stay in force as they are',
  ]);
  fault = undefined;
  await clock.advance(500);
  await first(streams);
});
