import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { BY_XDS_TYPE, RESOURCE_TYPE_URL } from '../../mcp/index.ts';
import { envoy, istio } from '../../protobuf/index.ts';
import { first, type Opened, played, ROUTE } from './testing/played-source.ts';

const { DeltaDiscoveryRequest, DeltaDiscoveryResponse } = envoy.service.discovery.v3;

/** The stream of a server that has no Delta. */
async function withoutDelta(streams: readonly Opened[]): Promise<Opened> {
  const { handler, path } = await first(streams);
  assert.match(path, /DeltaAggregatedResources$/);
  handler.opened();
  handler.ended(new CtlError('unimplemented', 'far:1 returned: unknown method'));
  const stream = await first(streams, 1);
  assert.match(stream.path, /StreamAggregatedResources$/);
  stream.handler.opened();
  return stream;
}

interface DeltaItem {
  readonly name: string;
  /** Its name in `metadata`; default: the same. */
  readonly inside?: string;
  readonly typeUrl?: string;
  /** Bytes in place of a document. */
  readonly value?: Uint8Array;
}

function answerDelta({ handler }: Opened, typeUrl: string, items: readonly DeltaItem[], removedResources?: string[]) {
  const body = { typeUrl: 'type.googleapis.com/istio.networking.v1alpha3.VirtualService', value: ROUTE };
  const resources = items.map(({ name, inside = name, typeUrl = RESOURCE_TYPE_URL, value }) => {
    const document = istio.mcp.v1alpha1.Resource.encode({ metadata: { name: inside, version: 'inside' }, body });
    return { name, version: `of ${name}`, resource: { typeUrl, value: value ?? document.finish() } };
  });
  const response = { typeUrl, nonce: `n-${typeUrl}`, resources, removedResources: removedResources ?? [] };
  handler.message(Buffer.from(DeltaDiscoveryResponse.encode(response).finish()));
}

const ROUTE_TYPE = 'networking.istio.io/v1/VirtualService';

test('Delta: a new stream states the versions that are known, and a resource that is no document is refused', async () => {
  const { clock, streams, store, source, isSynced } = played(undefined, true);
  const stream = await first(streams);
  stream.handler.opened();
  const items = ['shop/a', 'shop/b', 'shop/c'].map((name) => ({ name }));
  for (const type of BY_XDS_TYPE.keys()) answerDelta(stream, type, type === ROUTE_TYPE ? items : []);
  await clock.advance(0);
  assert.ok(isSynced());
  const nack = (): string =>
    DeltaDiscoveryRequest.decode(stream.sent.at(-1) ?? new Uint8Array()).errorDetail?.message ?? '';
  assert.equal(nack(), '');
  answerDelta(
    stream,
    ROUTE_TYPE,
    [
      { name: 'shop/a', typeUrl: 'a/b.C' },
      { name: 'shop/d', inside: 'shop/b' },
      // Metadata that is said to be longer than it is.
      { name: 'shop/e', value: Uint8Array.of(0x0a, 9) },
    ],
    ['shop/c'],
  );
  assert.match(nack(), /shop\/a: body: expected .*Resource, got "a\/b\.C"; shop\/d: body: metadata.name is "shop\/b"/);
  assert.match(nack(), /shop\/e: body: /);
  assert.deepEqual([...store.problems], ['VirtualService/shop/a', 'VirtualService/shop/d', 'VirtualService/shop/e']);
  assert.ok(!store.documents.has('VirtualService/shop/c'));
  assert.ok(store.documents.has('VirtualService/shop/b'));
  stream.handler.ended(new CtlError('unavailable', 'gone'));
  await clock.advance(500);
  const next = await first(streams, 1);
  assert.match(next.path, /DeltaAggregatedResources$/);
  next.handler.opened();
  const requests = next.sent.map((bytes) => DeltaDiscoveryRequest.decode(bytes));
  const { initialResourceVersions } = requests.find(({ typeUrl }) => typeUrl === ROUTE_TYPE) ?? {};
  // Those that were refused are to be sent again.
  assert.deepEqual(initialResourceVersions, { 'shop/a': '', 'shop/b': 'of shop/b', 'shop/d': '', 'shop/e': '' });
  answerDelta(next, ROUTE_TYPE, [{ name: 'shop/a' }], ['shop/d', 'shop/e']);
  assert.deepEqual([...store.problems], []);
  assert.deepEqual([...store.documents.keys()].sort(), ['VirtualService/shop/a', 'VirtualService/shop/b']);
  assert.deepEqual(source.health(), { ok: true });
});

test('Delta: after a response that is refused as a whole, the source is not healthy until the next stream', async () => {
  const { clock, streams, store, source } = played(undefined, true);
  const stream = await first(streams);
  stream.handler.opened();
  for (const type of BY_XDS_TYPE.keys()) answerDelta(stream, type, []);
  const many = Array.from({ length: 200 }, (_, index) => ({ name: `shop/web-${index}` }));
  answerDelta(stream, ROUTE_TYPE, many);
  // Servers do not send it again.
  answerDelta(stream, ROUTE_TYPE, [{ name: 'shop/a' }]);
  const health = source.health();
  assert.match(health.ok ? '' : health.reason, /need at least \d+ bytes, of which a source may have at most 100000/);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/a']);
  stream.handler.ended(new CtlError('unavailable', 'gone'));
  await clock.advance(500);
  const next = await first(streams, 1);
  next.handler.opened();
  answerDelta(next, ROUTE_TYPE, [{ name: 'shop/b' }]);
  assert.deepEqual(source.health(), { ok: true });
});

test('Delta: of more resources than there is memory for, only as many as that are read', async () => {
  const { streams, source } = played(undefined, true);
  const stream = await first(streams);
  stream.handler.opened();
  for (const list of [
    { removedResources: Array.from({ length: 1000 }, () => '') },
    { resources: new Array(1000).fill({}) },
  ]) {
    const response = DeltaDiscoveryResponse.encode({ typeUrl: ROUTE_TYPE, nonce: 'n', ...list });
    stream.handler.message(Buffer.from(response.finish()));
    const health = source.health();
    // 97 of 1 KiB have 100,000 bytes.
    assert.match(health.ok ? '' : health.reason, /need at least 100352 bytes/);
  }
});

test('a server that does not answer every type as Delta is read as State of the World', async () => {
  const { clock, streams, lines, isSynced } = played(undefined, true);
  const stream = await first(streams);
  stream.handler.opened();
  const [firstType = ''] = BY_XDS_TYPE.keys();
  answerDelta(stream, firstType, []);
  await clock.advance(10_000);
  assert.ok(stream.closed);
  assert.match(lines.join('\n'), /has not answered for .* as Delta: State of the World is requested/);
  const next = await first(streams, 1);
  assert.match(next.path, /StreamAggregatedResources$/);
  next.handler.opened();
  for (const typeUrl of BY_XDS_TYPE.keys()) {
    const response = envoy.service.discovery.v3.DiscoveryResponse.encode({ typeUrl, versionInfo: '1', nonce: '1' });
    next.handler.message(Buffer.from(response.finish()));
  }
  await clock.advance(0);
  assert.ok(isSynced());
});

/** The server answers every type as State of the World, with one document of its own. */
function answerWorld({ handler }: Opened): void {
  const { DiscoveryResponse } = envoy.service.discovery.v3;
  const body = { typeUrl: 'type.googleapis.com/istio.networking.v1alpha3.VirtualService', value: ROUTE };
  const metadata = { name: 'shop/a', version: 'of the world' };
  const value = istio.mcp.v1alpha1.Resource.encode({ metadata, body }).finish();
  for (const typeUrl of BY_XDS_TYPE.keys()) {
    const resources = typeUrl === ROUTE_TYPE ? [{ typeUrl: RESOURCE_TYPE_URL, value }] : [];
    handler.message(
      Buffer.from(DiscoveryResponse.encode({ typeUrl, versionInfo: '1', nonce: '1', resources }).finish()),
    );
  }
}

const GONE = new CtlError('unavailable', 'gone');

/** A source that was silent as Delta at first, and is read as State of the World. */
async function slowAtFirst() {
  const source = played(undefined, true);
  const { clock, streams } = source;
  const stream = async (index: number, opens = true): Promise<Opened> => {
    const found = await first(streams, index);
    if (opens) found.handler.opened();
    return found;
  };
  await stream(0);
  await clock.advance(10_000);
  const world = await stream(1);
  answerWorld(world);
  await clock.advance(0);
  return { ...source, world, stream };
}

test('a server that was slow at first is read as Delta from the next stream on that answers every type', async () => {
  const { clock, store, source, world, stream } = await slowAtFirst();
  world.handler.ended(GONE);
  await clock.advance(500);
  // A connection that fails says nothing about Delta.
  (await stream(2, false)).handler.ended(GONE);
  await clock.advance(15_000);
  const trial = await stream(3);
  assert.match(trial.path, /DeltaAggregatedResources$/);
  const requests = trial.sent.map((bytes) => DeltaDiscoveryRequest.decode(bytes));
  const known = requests.find(({ typeUrl }) => typeUrl === ROUTE_TYPE)?.initialResourceVersions;
  // Its versions as State of the World may be other ones.
  assert.deepEqual(known, { 'shop/a': '' });
  for (const type of BY_XDS_TYPE.keys())
    answerDelta(trial, type, type === ROUTE_TYPE ? [{ name: 'shop/b' }] : [], type === ROUTE_TYPE ? ['shop/a'] : []);
  await clock.advance(60_000);
  assert.deepEqual([trial.closed, [...store.documents.keys()]], [false, ['VirtualService/shop/b']]);
  assert.deepEqual(source.health(), { ok: true });
  trial.handler.ended(GONE);
  await clock.advance(500);
  const next = await stream(4);
  assert.match(next.path, /DeltaAggregatedResources$/);
  // Only what differs is sent: types without a change need not be answered.
  await clock.advance(60_000);
  assert.equal(next.closed, false);
});

test('a server that stays silent as Delta is read as State of the World again, and is not tried for ever', async () => {
  const { clock, streams, lines, store, world, stream } = await slowAtFirst();
  let current = world;
  const [firstType = ''] = BY_XDS_TYPE.keys();
  const endings: ((trial: Opened) => Promise<void> | void)[] = [
    // Of the types, only one.
    (trial) => {
      answerDelta(trial, firstType, []);
      return clock.advance(10_000);
    },
    // All types, but not the document that it has: nothing would ever update it.
    (trial) => {
      for (const type of BY_XDS_TYPE.keys()) answerDelta(trial, type, []);
      return clock.advance(10_000);
    },
    ({ handler }) => handler.ended(GONE),
  ];
  for (const end of endings) {
    current.handler.ended(GONE);
    await clock.advance(500);
    const trial = await stream(streams.length - 1);
    assert.match(trial.path, /DeltaAggregatedResources$/);
    await end(trial);
    current = await stream(streams.length - 1);
    assert.match(current.path, /StreamAggregatedResources$/);
    answerWorld(current);
    await clock.advance(0);
    assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/a']);
  }
  assert.match(
    lines.join('\n'),
    /has not answered for .* and \d+ more: the server does not answer every type as Delta/,
  );
  current.handler.ended(GONE);
  await clock.advance(500);
  assert.match((await stream(streams.length - 1)).path, /StreamAggregatedResources$/);
});

test('a server that says that it has no Delta is not asked for it again', async () => {
  const { clock, streams } = played(undefined, true);
  const world = await withoutDelta(streams);
  answerWorld(world);
  await clock.advance(0);
  world.handler.ended(GONE);
  await clock.advance(500);
  assert.match((await first(streams, 2)).path, /StreamAggregatedResources$/);
});

test('a server of xDS that changes its encoding removes nothing, and the source is not healthy', async () => {
  const { DiscoveryRequest, DiscoveryResponse } = envoy.service.discovery.v3;
  const { streams, store, source } = played(undefined, true);
  const stream = await withoutDelta(streams);
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

test('a server of xDS learns which documents were refused because of an internal error', async () => {
  const { DiscoveryRequest, DiscoveryResponse } = envoy.service.discovery.v3;
  const refusals = new Map([['VirtualService/shop/web', 'cannot be applied: a bug']]);
  const nack = 'refused documents: shop/web: cannot be applied: a bug';
  const delta = played(undefined, true, 100_000, undefined, undefined, () => refusals);
  const stream = await first(delta.streams);
  stream.handler.opened();
  answerDelta(stream, ROUTE_TYPE, [{ name: 'shop/web' }]);
  assert.equal(DeltaDiscoveryRequest.decode(stream.sent.at(-1) ?? new Uint8Array()).errorDetail?.message, nack);

  const world = await withoutDelta(played(undefined, true, 100_000, undefined, undefined, () => refusals).streams);
  const body = { typeUrl: 'type.googleapis.com/istio.networking.v1alpha3.VirtualService', value: ROUTE };
  const value = istio.mcp.v1alpha1.Resource.encode({ metadata: { name: 'shop/web', version: '1' }, body }).finish();
  const answered = (versionInfo: string) => {
    const resources = [{ typeUrl: RESOURCE_TYPE_URL, value }];
    const response = { typeUrl: ROUTE_TYPE, versionInfo, nonce: `n-${versionInfo}`, resources };
    world.handler.message(Buffer.from(DiscoveryResponse.encode(response).finish()));
    const {
      errorDetail,
      versionInfo: stated,
      responseNonce,
    } = DiscoveryRequest.decode(world.sent.at(-1) ?? body.value);
    return [stated, responseNonce, errorDetail?.message];
  };
  assert.deepEqual(answered('1'), ['', 'n-1', nack]);
  refusals.clear();
  assert.deepEqual(answered('2'), ['2', 'n-2', undefined]);
  refusals.set('VirtualService/shop/web', 'cannot be applied: a bug');
  assert.deepEqual(answered('3'), ['2', 'n-3', nack]);
});
