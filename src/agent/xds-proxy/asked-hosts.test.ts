/** Hosts that Envoy waits for: unavailable after a time, and answered by the control plane in the end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { XDS } from '../../core/xds-types.ts';
import { envoy } from '../../protobuf/index.ts';
import { encodeFields } from '../../protobuf/wire/index.ts';
import { AskedHosts, isHost } from './asked-hosts.ts';
import { readRequest, readResponse, writeRequest, writeResponse } from './messages.ts';
import { Relay } from './relay.ts';
import { Snapshot } from './snapshot.ts';

const { Resource } = envoy.service.discovery.v3;
const { VirtualHost } = envoy.config.route.v3;
const { url: typeUrl } = XDS.vhds;

/** A virtual host, or without domains an answer, as the control plane sends it. */
function resource(name: string, version: string, domains: readonly string[], aliases: readonly string[] = []): Buffer {
  const value = encodeFields([[1, name], ...domains.map((domain) => [2, domain] as const)]);
  const any = encodeFields([
    [1, typeUrl],
    [2, value],
  ]);
  return encodeFields([
    [1, version],
    ...(domains.length === 0 ? [] : [[2, any] as const]),
    [3, name],
    ...aliases.map((alias) => [4, alias] as const),
  ]);
}

const located = (...resources: readonly Buffer[]) =>
  readResponse('delta', writeResponse({ typeUrl, version: '', nonce: '', resources })).resources;

function decoded(bytes: Buffer) {
  const { name, aliases, resource: message } = Resource.decode(bytes);
  return { name, aliases, host: message?.value ? VirtualHost.decode(message.value) : undefined };
}

test('an unavailable host is a virtual host of its own, with HTTP 503 and the reason', () => {
  const [bytes] = new AskedHosts().unavailable(['80/web.example'], []).resources;
  assert.ok(bytes);
  const { name, aliases, host } = decoded(bytes);
  assert.deepEqual([name, aliases], ['80/unavailable web.example', ['80/web.example']]);
  assert.deepEqual([host?.name, host?.domains], [name, ['web.example']]);
  const [route] = host?.routes ?? [];
  assert.equal(route?.match?.prefix, '/');
  assert.equal(route?.directResponse?.status, 503);
  assert.match(route?.directResponse?.body?.inlineString ?? '', /^web.example: the control plane did not answer/);
});

test('a host that Envoy has, or with a wildcard, gets no second virtual host; nor do too many', () => {
  const present = located(resource('80/web:80', '1', ['web', 'web.example']));
  const asked = new AskedHosts();
  const { resources, refused } = asked.unavailable(['80/web', '81/web', '80/*', '80/a*b'], present);
  const hosts = resources.map((each) => decoded(each).host);
  assert.deepEqual(
    hosts.map((host) => host !== undefined),
    [false, true, false, false],
  );
  assert.deepEqual(refused, ['80/*', '80/a*b']);
  const many = Array.from({ length: 1100 }, (_, at) => `80/host-${at}`);
  const { resources: made, refused: others } = asked.unavailable(many, []);
  assert.equal(made.filter((each) => decoded(each).host !== undefined).length, 999);
  assert.equal(others.length, 101);
});

test('names of virtual hosts stand for hosts, others do not', () => {
  const rows: readonly (readonly [string, string, boolean])[] = [
    [typeUrl, '80/web', true],
    [typeUrl, 'name/with/slashes/web:80', true],
    [typeUrl, '80/', false],
    [typeUrl, '80', false],
    [typeUrl, '80/answer web', false],
    [XDS.rds.url, '80/web', false],
  ];
  for (const [url, name, expected] of rows) assert.equal(isHost(url, name), expected, name);
});

/** A relay with a client that has a snapshot, and what each side was sent. */
function setUp() {
  const [toClient, toUpstream]: [Buffer[], Buffer[]] = [[], []];
  const snapshot = new Snapshot('delta', 0);
  const relay = new Relay('delta', 'snapshot-', {
    toClient: (bytes) => void toClient.push(bytes),
    toUpstream: (bytes) => void toUpstream.push(bytes),
    identified: () => snapshot,
    rejected: () => undefined,
    servedFromSnapshot: () => undefined,
    unavailable: () => undefined,
  });
  const send = (request: Omit<Parameters<typeof writeRequest>[1], 'typeUrl'>, now = 0) =>
    relay.fromClient(writeRequest('delta', { typeUrl, ...request }), now);
  const receive = (nonce: string, ...resources: readonly Buffer[]) =>
    relay.fromUpstream(writeResponse({ typeUrl, version: '', nonce, resources }));
  const sent = () => toClient.splice(0).map((bytes) => readResponse('delta', bytes));
  const passed = () => toUpstream.splice(0).map((bytes) => readRequest('delta', bytes));
  const node = encodeFields([[1, 'sidecar~']]);
  const names = (of: ReturnType<typeof sent>) => of.map(({ resources }) => resources.map(({ name }) => name));
  return { relay, snapshot, send, receive, sent, passed, node, names };
}

test('a host is unavailable after its time, and the answer of the control plane replaces it', () => {
  const { relay, snapshot, send, receive, sent, passed, node, names } = setUp();
  send({ node });
  relay.attach();
  receive('1', resource('80/answer ', 'answered', [], ['80/']));
  send({ nonce: '1' });
  send({ names: ['80/web'] }, 100);
  assert.equal(relay.waitsSince, 100);
  passed();
  sent();

  relay.stopWaiting(99);
  assert.deepEqual(sent(), []);
  relay.stopWaiting(100);
  const [unavailable] = sent();
  assert.ok(unavailable);
  assert.deepEqual(names([unavailable]), [['80/unavailable web']]);
  assert.equal(relay.waitsSince, undefined);
  // The control plane does not know the nonce.
  send({ nonce: unavailable.nonce });
  assert.deepEqual(passed(), []);
  assert.deepEqual([...(snapshot.get(typeUrl)?.resources.keys() ?? [])], ['80/answer ']);

  // The stream ends; on the next one the host is asked for again, and what was made is not reported.
  relay.detach();
  relay.attach();
  const [again] = passed();
  assert.deepEqual(again?.names, ['*', '80/web']);
  assert.deepEqual([...(again?.initialVersions.keys() ?? [])], ['80/answer ']);
  receive('1', resource('80/web:80', '1', ['web']), resource('80/answer web', 'answered', [], ['80/web']));
  const [answer] = sent();
  assert.deepEqual(
    [answer?.removed, names([answer ?? unavailable])],
    [['80/unavailable web'], [['80/web:80', '80/answer web']]],
  );
  receive('2', resource('80/web:80', '2', ['web']));
  assert.deepEqual(sent()[0]?.removed, []);
});

test('a virtual host for the same domain replaces it as well, and one of an earlier agent', () => {
  const { relay, send, receive, sent, passed, node } = setUp();
  const versions: readonly (readonly [string, string])[] = [
    ['80/unavailable web', 'unavailable'],
    ['80/other:80', '1'],
  ];
  relay.attach();
  send({ node, initialVersions: versions });
  assert.deepEqual([...(passed()[0]?.initialVersions.keys() ?? [])], ['80/other:80']);
  receive('1', resource('80/third:80', '1', ['third']));
  assert.deepEqual(sent()[0]?.removed, []);
  receive('2', resource('80/web:80', '1', ['web.example', 'web']));
  assert.deepEqual(sent()[0]?.removed, ['80/unavailable web']);
});

test('a client that reconnects waits for the names whose answers it does not have', () => {
  const { relay, send, node } = setUp();
  relay.attach();
  const versions: readonly (readonly [string, string])[] = [
    ['80/web:80', '1'],
    ['80/answer web', 'answered'],
    ['80/unavailable gone', 'unavailable'],
  ];
  send({ node, names: ['80/web', '80/gone'], initialVersions: versions }, 1);
  assert.equal(relay.waitsSince, undefined);
  send({ names: ['80/web', '80/other'] }, 2);
  assert.equal(relay.waitsSince, 2);
});

test('hosts that got nothing are not asked of the next control plane, unless the client asks again', () => {
  const { relay, send, sent, passed, node } = setUp();
  send({ node, names: ['*'] });
  relay.goOffline();
  send({ names: Array.from({ length: 1500 }, (_, at) => `80/host-${at}`) });
  relay.stopWaiting(0);
  for (const { nonce } of sent()) send({ nonce });
  send({ names: ['80/host-1400'] });
  relay.attach();
  const names = passed().flatMap((request) => request.names);
  assert.deepEqual([names.length, names.includes('80/host-0'), names.at(-1)], [1002, true, '80/host-1400']);
});

test('without the control plane, hosts that are asked for are not reported as removed', () => {
  const { relay, send, receive, sent, node } = setUp();
  send({ node });
  relay.attach();
  receive('1', resource('80/web:80', '1', ['web']));
  send({ nonce: '1' });
  relay.detach();
  relay.goOffline();
  sent();
  send({ names: ['80/other'] }, 5);
  assert.deepEqual(sent(), []);
  relay.stopWaiting(5);
  assert.equal(sent().length, 1);
});
