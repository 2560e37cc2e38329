/**
 * Documents from other control planes: a real Envoy is configured by what a source of Istio 1.7 serves over MCP, and
 * another ctl-discovery and a Delta server of go-control-plane over xDS, and stays so while these are killed. The sink
 * of Istio 1.7 and its client of configuration over xDS read from ctl-discovery.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually } from '../harness/index.ts';
import { endsUnavailable, startIstioEnd } from '../mcp/build.ts';
import {
  AUDIT,
  backend,
  come,
  type DocumentMesh,
  deny,
  external,
  GATEWAY,
  gateway,
  route,
  startDocumentMesh,
} from './support/document-mesh.ts';
import { halfSource, NETWORKING } from './support/document-servers.ts';
import { connectReader, documentsOf, routesRequest } from './support/mcp-reader.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await endsUnavailable()) ?? false;

const owner = suiteOwner();
const shared = lazy<DocumentMesh>();

before(async () => {
  if (skip === false) shared.set(await startDocumentMesh(owner));
});

async function configz(): Promise<{
  sources: { id: string; synced: boolean; health: { ok: boolean } }[];
  items: { source: string; kind: string; metadata: { name: string }; others?: { source: string }[] }[];
}> {
  return (await shared.get().reader.discovery().http('/debug/configz')).json() as Awaited<ReturnType<typeof configz>>;
}

test('documents over MCP and over xDS configure a real Envoy together', { skip }, async () => {
  await come(async () => assert.equal(await backend(), 'blue'));
  await come(async () => assert.equal(await backend('/', 'green.shop.com'), 'green'));
  await come(async () => assert.equal(await backend('/closed'), '403'));
  const { sources } = await configz();
  assert.deepEqual(
    sources.filter(({ id }) => /^(mcp|xds):/.test(id)).map(({ synced, health }) => [synced, health.ok]),
    Array.from({ length: 3 }, () => [true, true]),
  );
});

test('over Delta, only changes are sent, and after a restart of the server what it does not know', {
  skip,
}, async () => {
  const { delta } = shared.get();
  const ROUTES = 'networking.istio.io/v1/VirtualService';
  const host = (name: string) => `${name}.shop.com`;
  const document = (name: string, to = 'blue') => route(name, to, host(name));
  const last = () => delta.end.lines.findLast(({ type, sent }) => type === ROUTES && sent !== undefined);
  await come(async () => assert.equal(await backend('/', host('first')), 'blue'));
  await delta.serve(document('first'), document('second'));
  await come(async () => assert.equal(await backend('/', host('second')), 'blue'));
  assert.deepEqual(last(), { type: ROUTES, sent: ['default/second'], removed: null });
  await delta.serve(document('second'));
  await come(async () => assert.equal(await backend('/', host('first')), '404'));
  assert.deepEqual(last(), { type: ROUTES, sent: [], removed: ['default/first'] });
  // A document with a mistake is refused alone.
  await delta.serve(document('second', 'green'), route('third', 'blue', '*.*'));
  await come(async () => assert.equal(await backend('/', host('second')), 'green'));
  const nack = () => String(delta.end.lines.findLast((line) => line.nack !== undefined)?.nack);
  await come(() => assert.match(nack(), /default\/third: spec\.hosts/));
  await delta.end.child.kill();
  await delta.serve(document('second', 'green'), document('fourth'));
  await delta.restart();
  await come(async () => assert.equal(await backend('/', host('fourth')), 'blue'));
  assert.equal(await backend('/', host('second')), 'green');
  const { known } = delta.end.lines.find(({ type }) => type === ROUTES) ?? {};
  assert.deepEqual(Object.keys(known as object).sort(), ['default/second', 'default/third']);
  assert.deepEqual(last()?.sent, ['default/fourth']);
});

test('a server that no longer offers Delta is read as State of the World', { skip }, async () => {
  const { delta } = shared.get();
  await delta.end.child.kill();
  await delta.serve(route('fifth', 'green', 'fifth.shop.com'));
  await delta.restart('-sotw');
  await come(async () => assert.equal(await backend('/', 'fifth.shop.com'), 'green'));
  // What the server does not have any more is removed.
  await come(async () => assert.equal(await backend('/', 'fourth.shop.com'), '404'));
  await delta.serve();
  await come(async () => assert.equal(await backend('/', 'fifth.shop.com'), '404'));
  assert.match(shared.get().reader.discovery().output(), /the server does not offer Delta: State of the World/);
});

test('of a document that two sources have, that of the first source is in force and the other is listed', {
  skip,
}, async () => {
  const { hub, source } = shared.get();
  await hub.config.apply('same', route('shop', 'green'));
  const found = async () =>
    (await configz()).items.find(({ kind, metadata }) => kind === 'VirtualService' && metadata.name === 'shop');
  await come(async () => {
    const item = await found();
    assert.equal(item?.source, source.id);
    assert.match(item?.others?.[0]?.source ?? '', /^xds:/);
  });
  assert.equal(await backend(), 'blue');
  await source.serve(GATEWAY, external('blue', 21));
  await come(async () => assert.equal(await backend(), 'green'));
  await source.serve(GATEWAY, external('blue', 21), route('shop', 'blue'));
  await come(async () => assert.equal(await backend(), 'blue'));
  await hub.config.remove('same');
  await come(async () => assert.deepEqual((await found())?.others ?? [], []));
});

test('while servers are killed, send half messages and come back, no request fails and the policy stays', {
  skip,
  timeout: 600_000,
}, async () => {
  const { reader, hub, source } = shared.get();
  await come(async () => assert.equal(await backend(), 'blue'));
  const traffic = startTraffic([gateway, { ...gateway, host: 'green.shop.com' }]);
  let watching = true;
  const opened: string[] = [];
  const policy = (async () => {
    while (watching) {
      const outcome = await backend('/closed');
      if (outcome !== '403') opened.push(outcome);
    }
  })();
  const down = (prefix: string) =>
    come(async () => {
      const { sources } = await configz();
      assert.equal(sources.find(({ id }) => id.startsWith(prefix))?.health.ok, false);
    });
  await source.end.child.kill();
  await hub.discovery.kill();
  await down('mcp:');
  await down('xds:');
  await traffic.more(50);
  assert.equal((await reader.discovery().http('/ready')).status, 200);
  const half = await halfSource(Number(source.id.split(':').at(-1)));
  await come(() => assert.ok(half.streams() >= 2));
  await half.close();
  // What changed while they were away: one document is gone, and one is new.
  await source.serve(GATEWAY, external('blue', 21), route('shop', 'blue'), route('more', 'blue', 'more.shop.com'));
  await hub.restart();
  await source.restart();
  await come(async () => assert.equal(await backend('/', 'more.shop.com'), 'blue'));
  await come(async () => assert.ok((await configz()).sources.every(({ health }) => health.ok)));
  await traffic.more(50);
  watching = false;
  await policy;
  assert.deepEqual(opened, []);
  assert.deepEqual(await traffic.stop(), []);
  assert.ok(((await reader.discovery().metric('mesh_mcp_reconnections')) ?? 0) >= 2);
  await source.serve(GATEWAY, external('blue', 21), route('shop', 'blue'));
  await come(async () => assert.equal(await backend('/', 'more.shop.com'), '404'));
});

test('a sink of Istio reads the documents in force, and their changes', { skip }, async (t) => {
  const { hub, certificatesOf } = shared.get();
  const certs = await certificatesOf('mesh-system');
  const connect = ['-connect', `127.0.0.1:${hub.discovery.ports.secure}`, '-certs', certs];
  const sinks = [
    await startIstioEnd(t, 'sink', ...connect),
    await startIstioEnd(t, 'sink', '-incremental', ...connect),
  ];
  const routes = `${NETWORKING}/virtualservices`;
  const all = async (expected: readonly string[]) => {
    await come(() => {
      for (const { lines } of sinks) assert.deepEqual(Object.keys(documentsOf(lines, routes)).sort(), expected);
    });
  };
  await all(['default/green']);
  for (const { lines } of sinks) {
    await come(() =>
      assert.deepEqual(
        documentsOf(lines, 'istio/security/v1beta1/authorizationpolicies')['default/closed'],
        deny('/closed').spec,
      ),
    );
    assert.deepEqual(documentsOf(lines, `${NETWORKING}/serviceentries`)['default/green'], external('green', 22).spec);
  }
  await hub.config.apply('new', route('new', 'green', 'new.shop.com'), AUDIT);
  await all(['default/green', 'default/new']);
  for (const { lines } of sinks)
    await come(() =>
      assert.deepEqual(documentsOf(lines, 'istio/policy/v1beta1/handlers')['default/audit'], AUDIT.spec),
    );
  await hub.config.remove('new');
  await all(['default/green']);
  // Changes only: the document that stayed was sent once.
  const sent = sinks[1]?.lines.flatMap(({ collection, documents }) =>
    collection === routes ? (documents as { name: string }[]).map(({ name }) => name) : [],
  );
  assert.deepEqual(sent, ['default/green', 'default/new']);
  const metric = (name: string) => hub.discovery.metric(name);
  // The reader is one over xDS, which is not counted.
  assert.equal(await metric('mesh_mcp_clients_total'), 2);
  assert.ok(((await metric('mesh_mcp_request_acks_total')) ?? 0) >= 20);
  assert.ok(((await metric('mesh_mcp_message_sizes_bytes_count')) ?? 0) >= 40);
});

test('the client of Istio for configuration over xDS is synced, and follows changes', { skip }, async (t) => {
  const { hub, certificatesOf } = shared.get();
  const certs = await certificatesOf('mesh-system');
  const { lines } = await startIstioEnd(
    t,
    'xds',
    '-connect',
    `127.0.0.1:${hub.discovery.ports.secure}`,
    '-certs',
    certs,
  );
  const specOf = (name: string) => lines.findLast(({ xds }) => xds === name)?.spec;
  await come(() => assert.ok(lines.some(({ synced }) => synced === true)));
  await come(() => assert.deepEqual(specOf('AuthorizationPolicy/default/closed'), deny('/closed').spec));
  await hub.config.apply('new', route('new', 'green', 'new.shop.com'));
  await come(() => assert.deepEqual(specOf('VirtualService/default/new'), route('new', 'green', 'new.shop.com').spec));
  await hub.config.remove('new');
});

test('metrics count what sinks refuse, requests that cannot be read, and responses that cannot be sent', {
  skip,
}, async () => {
  const { hub, certificatesOf } = shared.get();
  const certs = await certificatesOf('mesh-system');
  const connect = (streamWindow: number) => connectReader(hub.discovery.ports.secure ?? 0, certs, streamWindow);
  const metric = async (name: string) => (await hub.discovery.metric(`mesh_mcp_${name}`)) ?? 0;
  const names = ['request_nacks_total', 'recv_failures_total', 'send_failures_total'];
  const before = await Promise.all(names.map(metric));
  const reader = await connect(100_000);
  reader.stream.send(routesRequest());
  await come(() => assert.equal(reader.messages.length, 1));
  reader.stream.send(routesRequest({ responseNonce: '1', errorDetail: { code: 3, message: 'default/green: no' } }));
  await come(async () => assert.equal(await metric('request_nacks_total'), (before[0] ?? 0) + 1));
  await come(() =>
    assert.match(hub.discovery.output(), /has refused documents: .*virtualservices: default\/green: no/),
  );
  reader.stream.send(Buffer.of(0xff));
  await come(async () => assert.equal(await metric('recv_failures_total'), (before[1] ?? 0) + 1));
  await come(() => assert.match(hub.discovery.output(), /refused a stream of MCP from 127\.0\.0\.1/));
  const deaf = await connect(0);
  deaf.stream.send(routesRequest());
  await come(async () => assert.equal(await metric('clients_total'), 1));
  deaf.stream.close();
  await come(async () => assert.equal(await metric('send_failures_total'), (before[2] ?? 0) + 1));
  assert.equal(await metric('clients_total'), 0);
});

test('an identity that is no control plane reads nothing', { skip }, async (t) => {
  const { hub, certificatesOf } = shared.get();
  const certs = await certificatesOf('default');
  const connect = ['-connect', `127.0.0.1:${hub.discovery.ports.secure}`, '-certs', certs];
  const { lines } = await startIstioEnd(t, 'sink', ...connect);
  const xds = await startIstioEnd(t, 'xds', ...connect);
  const why = 'documents are served only to .*, not to spiffe://cluster.local/ns/default/sa/istiod';
  await come(() => assert.match(hub.discovery.output(), new RegExp(`refused a stream of MCP from .*: .*${why}`)));
  await come(() => assert.match(hub.discovery.output(), new RegExp(`refused a stream from .*: .*${why}`)));
  assert.ok(!lines.some(({ documents }) => documents !== undefined));
  assert.ok(!xds.lines.some(({ spec }) => spec !== undefined));
});

test('changes of a source that never pauses are collected, and the last one takes effect', { skip }, async () => {
  const { reader, source } = shared.get();
  let change = 0;
  // The source sends what it sees when it looks: with pauses, it sees most changes.
  const next = async () => {
    await source.serve(GATEWAY, external('blue', 21), route('shop', 'blue', `c${change++}.shop.com`));
    assert.match(reader.discovery().output(), new RegExp(`${source.id}: changes arrive too fast`));
  };
  await eventually(next, { intervalMs: 25, timeoutMs: 60_000 });
  await source.serve(GATEWAY, external('blue', 21), route('shop', 'blue', 'last.shop.com'));
  await come(async () => assert.equal(await backend('/', 'last.shop.com'), 'blue'));
});

test('ctl-discovery is not ready before each source has answered, and names it', {
  skip,
  timeout: 600_000,
}, async () => {
  const { reader, source } = shared.get();
  await source.end.child.kill();
  await reader.discovery().stop();
  const restarting = reader.restart();
  await come(async () => {
    const { status, body } = await reader.discovery().http('/ready');
    assert.equal(status, 503);
    assert.match(body, new RegExp(`waiting for.*${source.id}`));
  });
  // From now on with the collections of the policy component, which it did not have until now.
  await source.serve(GATEWAY, external('blue', 21), route('shop', 'blue'), AUDIT);
  await source.restart('-policy');
  await restarting;
  await come(async () => assert.equal(await backend(), 'blue'));
  assert.equal(await backend('/closed'), '403');
  const { items } = await configz();
  assert.equal(items.find(({ kind, metadata }) => kind === 'handler' && metadata.name === 'audit')?.source, source.id);
});
