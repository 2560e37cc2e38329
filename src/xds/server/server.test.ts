/** The server over real sockets, with a grpc-js client and a fake engine with real bundles. */

import assert from 'node:assert/strict';
import { connect } from 'node:http2';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { CtlError } from '../../core/errors.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import {
  Content,
  encodeDeltaRequest,
  encodeNode,
  encodeSotwRequest,
  nested,
  type ParsedResponse,
  SIDECAR_ID,
} from '../testing/content.ts';
import { FakeEngine, quietObserver } from '../testing/engine.ts';
import { openCall, openPeer, type Peer } from '../testing/peer.ts';
import { testServer } from '../testing/server.ts';
import type { XdsObserver } from './observer.ts';
import type { XdsServer } from './server.ts';
import type { XdsServerOptions } from './server-options.ts';
import { ADS_PATHS, ADS_PATHS_V2 } from './services.ts';

const node = encodeNode(SIDECAR_ID, { NAMESPACE: 'shop', LABELS: { app: 'web' } });

let content: Content;
let engine: FakeEngine;
let server: XdsServer;
let seen: string[];
let clients: Client[];

function observer(): XdsObserver {
  return {
    ...quietObserver,
    connected: () => seen.push('connected'),
    disconnected: () => seen.push('disconnected'),
    pushed: ({ type }) => seen.push(`pushed ${type}`),
    rejected: ({ type, message, named }) => seen.push(`rejected ${type} ${message} [${named.join()}]`),
    writeTimeout: () => seen.push('timeout'),
    asked: () => {},
    expiredNonce: (type) => seen.push(`expired ${type}`),
    refused: (_peer, error) => seen.push(`refused ${error.oneLine()}`),
    requestTooLarge: (_peer, details) => seen.push(`too large ${details}`),
    unknownType: (_id, url) => seen.push(`unknown ${url}`),
    internalError: (error) => seen.push(`internal ${String(error)}`),
  };
}

async function start(options: Partial<XdsServerOptions> = {}): Promise<void> {
  server = testServer({ engine, observer: observer(), maxStreams: 100, ...options });
  await server.start();
}

function client(): Client {
  const made = new Client(`127.0.0.1:${server.ports()[0]}`, credentials.createInsecure(), {
    'grpc.max_receive_message_length': -1,
    'grpc.use_local_subchannel_pool': 1,
  });
  clients.push(made);
  return made;
}

function open(mode: 'sotw' | 'delta', paths = ADS_PATHS): Peer {
  return openPeer(client(), mode, paths);
}

function names(response: ParsedResponse): string[] {
  return response.resources.map(({ name }) => name).sort();
}

function delta(type: XdsType, more: Partial<Parameters<typeof encodeDeltaRequest>[0]> = {}): Buffer {
  return encodeDeltaRequest({ typeUrl: XDS[type].url, ...more });
}

function sotw(type: XdsType, more: Partial<Parameters<typeof encodeSotwRequest>[0]> = {}): Buffer {
  return encodeSotwRequest({ typeUrl: XDS[type].url, ...more });
}

function until(condition: () => boolean): Promise<void> {
  return waitUntil(condition, { what: () => `seen: ${seen.join(' | ')}` });
}

beforeEach(() => {
  content = new Content();
  engine = new FakeEngine(content);
  seen = [];
  clients = [];
  content.set('cds', 'web', '1', ['eds-web']);
  content.set('eds', 'eds-web', '1');
  content.set('lds', 'http', '1', ['80']);
  content.set('rds', '80', '1');
});

afterEach(async () => {
  for (const one of clients) one.close();
  await server.close({ drainMs: 0 });
});

describe('ADS over a socket', { timeout: 120_000 }, () => {
  it('Delta: serves all types in order, then only what changes', async () => {
    await start();
    const peer = open('delta');
    peer.send(delta('cds', { node }));
    const cds = await peer.next();
    assert.deepEqual(names(cds), ['web']);
    peer.send(delta('eds', { subscribe: ['eds-web'] }));
    peer.send(delta('lds'));
    peer.send(delta('rds', { subscribe: ['80', 'missing'] }));
    const eds = await peer.next();
    assert.deepEqual(names(eds), ['eds-web']);
    peer.send(delta('cds', { nonce: cds.nonce }));
    const lds = await peer.next();
    const rds = await peer.next();
    assert.deepEqual(names(lds), ['http']);
    assert.deepEqual(names(rds), ['80']);
    assert.deepEqual(rds.removed, ['missing']);
    peer.send(delta('eds', { nonce: eds.nonce }));
    peer.send(delta('lds', { nonce: lds.nonce }));
    peer.send(delta('rds', { nonce: rds.nonce }));
    await until(() => engine.synced.length > 0);
    assert.equal(engine.synced.at(-1), content.version);
    content.set('eds', 'eds-web', '2');
    engine.publish();
    const update = await peer.next();
    assert.deepEqual(update.resources, [{ name: 'eds-web', version: 'v:2', text: '2' }]);
    const [connection] = server.connections();
    assert.equal(connection?.mode, 'delta');
    assert.equal(connection?.types.get('eds')?.nonceSent, update.nonce);
    assert.equal(connection?.types.get('eds')?.nonceAcked, eds.nonce);
  });

  it('SotW: full sets of clusters, and nothing after a reconnect with the same version', async () => {
    await start();
    const peer = open('sotw');
    peer.send(sotw('cds', { node }));
    const first = await peer.next();
    peer.send(sotw('cds', { nonce: first.nonce, version: first.version }));
    content.set('cds', 'api', '1');
    engine.publish();
    const second = await peer.next();
    assert.deepEqual(names(second), ['api', 'web']);
    peer.call.cancel();
    await until(() => seen.includes('disconnected'));
    const again = open('sotw');
    again.send(sotw('cds', { node, version: second.version }));
    await until(() => engine.synced.length > 0);
    const status = () => server.connections().at(-1)?.types.get('cds');
    await until(() => status()?.resumedUpToDate === true);
    assert.equal(status()?.nonceSent, '');
    content.set('cds', 'api', '2');
    engine.publish();
    const third = await again.next();
    assert.deepEqual(names(third), ['api', 'web']);
    assert.equal(again.received(), 1);
  });

  it('sends messages of several MiB whole', async () => {
    await start();
    const big = 'x'.repeat(300_000);
    content.setAll(
      'lds',
      Array.from({ length: 20 }, (_, index) => [`big-${index}`, big + index] as const),
    );
    const peer = open('delta');
    peer.send(delta('lds', { node }));
    const response = await peer.next();
    assert.equal(response.resources.length, 21);
    assert.equal(response.resources.find(({ name }) => name === 'big-7')?.text, `${big}7`);
  });

  it('ends streams gracefully on close', async () => {
    await start();
    const peer = open('delta');
    peer.send(delta('cds', { node }));
    await peer.next();
    await server.close({ drainMs: 2000 });
    assert.equal((await peer.ended).code, status.UNAVAILABLE);
    assert.deepEqual(engine.open, 0);
  });
});

describe('clients that misbehave', { timeout: 120_000 }, () => {
  async function refusedWith(
    bytes: Buffer,
    mode: 'sotw' | 'delta' = 'delta',
  ): Promise<{ code: number; details: string }> {
    const peer = open(mode);
    peer.send(bytes);
    return peer.ended;
  }

  it('reports what is wrong with a first request', async () => {
    await start();
    const rows: [string, Buffer, RegExp][] = [
      ['no node', delta('cds'), /must carry the node/],
      ['no id', delta('cds', { node: encodeNode('') }), /node\.id: must be <type>/],
      ['junk', Buffer.from([0xff, 0xff, 0xff, 0xff]), /not a protobuf message/],
      ['a group', Buffer.from([0x0b, 0x0c]), /wire type 3/],
      ['no type', encodeDeltaRequest({ typeUrl: '', node }), /needs a type_url/],
      [
        'v2 type',
        encodeDeltaRequest({ typeUrl: 'type.googleapis.com/envoy.api.v2.Cluster', node }),
        /is not an xDS v3 type/,
      ],
      ['a type from elsewhere', encodeDeltaRequest({ typeUrl: 'x', node }), /is not an xDS v3 type/],
    ];
    for (const [row, bytes, expected] of rows) {
      const { code, details } = await refusedWith(bytes);
      assert.equal(code, status.INVALID_ARGUMENT, row);
      assert.match(details, expected, row);
    }
    assert.equal(engine.open, 0);
  });

  it('answers v2 with UNIMPLEMENTED and a remedy', async () => {
    await start();
    const peer = open('sotw', ADS_PATHS_V2);
    peer.send(sotw('cds', { node }));
    const { code, details } = await peer.ended;
    assert.equal(code, status.UNIMPLEMENTED);
    assert.match(details, /V3/);
  });

  it('ignores types that it does not serve', async () => {
    await start();
    const peer = open('delta');
    const url = 'type.googleapis.com/envoy.service.runtime.v3.Runtime';
    peer.send(encodeDeltaRequest({ typeUrl: url, node, subscribe: ['default'] }));
    peer.send(encodeDeltaRequest({ typeUrl: url, subscribe: ['other'] }));
    peer.send(delta('cds'));
    assert.deepEqual(names(await peer.next()), ['web']);
    assert.deepEqual(
      seen.filter((line) => line.startsWith('unknown')),
      [`unknown ${url}`],
    );
  });

  it('closes a stream whose request exceeds the limit, and reports it', async () => {
    await start({ maxReceiveBytes: 1000 });
    const { code } = await refusedWith(delta('cds', { node: nested(7, Buffer.alloc(5000)) }));
    assert.equal(code, status.RESOURCE_EXHAUSTED);
    assert.match(seen.join(), /too large .*larger than max/);
  });

  it('accepts 5,000 names, and a flood of requests with one response outstanding', async () => {
    await start();
    const wanted = Array.from({ length: 5000 }, (_, index) => `eds-${index}`);
    content.setAll(
      'eds',
      wanted.map((name) => [name, '1'] as const),
    );
    const peer = open('delta');
    peer.send(delta('eds', { node, subscribe: wanted }));
    for (let index = 0; index < 500; index++) peer.send(delta('eds', { subscribe: wanted.slice(0, 100) }));
    const first = await peer.next();
    await until(() => engine.requests > 0);
    assert.equal(peer.received(), 1);
    peer.send(delta('eds', { nonce: 'nonsense' }));
    peer.send(delta('eds', { nonce: first.nonce }));
    const second = await peer.next();
    assert.ok(first.resources.length + second.resources.length >= 5000);
    assert.ok(seen.includes('expired eds'));
  });

  it('closes a stream whose client never reads, and serves others', async () => {
    await start({ sendTimeoutMs: 200 });
    const huge = 'x'.repeat(200_000);
    content.setAll(
      'lds',
      Array.from({ length: 40 }, (_, index) => [`big-${index}`, huge + index] as const),
    );
    // A plain HTTP/2 client: the window of 64 KiB stays closed on a stream that is not read.
    const session = connect(`http://127.0.0.1:${server.ports()[0]}`);
    session.on('error', () => {});
    const stuck = session.request({
      ':method': 'POST',
      ':path': ADS_PATHS.delta,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stuck.on('error', () => {});
    const message = delta('lds', { node });
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(message.length, 1);
    stuck.write(Buffer.concat([prefix, message]));
    await until(() => seen.includes('timeout'));
    await until(() => engine.open === 0);
    session.destroy();
    const peer = open('delta');
    peer.send(delta('cds', { node }));
    assert.deepEqual(names(await peer.next()), ['web']);
  });

  it('refuses streams when too many are connecting', async () => {
    await start({ maxEntering: 1 });
    engine.hold = true;
    const first = open('delta');
    first.send(delta('cds', { node }));
    await until(() => engine.open === 1);
    const { code } = await refusedWith(delta('cds', { node }));
    assert.equal(code, status.RESOURCE_EXHAUSTED);
    engine.release();
    assert.deepEqual(names(await first.next()), ['web']);
  });

  it('keeps nothing of clients that leave before they are ready', async () => {
    await start();
    engine.hold = true;
    for (let index = 0; index < 20; index++) {
      const peer = open('delta');
      peer.call.on('error', () => {});
      peer.send(delta('cds', { node }));
      await until(() => engine.open === 1);
      peer.call.cancel();
      await until(() => engine.open === 0);
    }
    assert.deepEqual(server.connections(), []);
  });

  it('asks old connections to reconnect', async () => {
    await start({ maxConnectionAgeMs: 100, random: () => 0.5 });
    const peer = open('delta');
    peer.send(delta('cds', { node }));
    await peer.next();
    const { code, details } = await peer.ended;
    assert.equal(code, status.UNAVAILABLE);
    assert.match(details, /maximum age/);
  });
});

describe('a rejected resource', { timeout: 120_000 }, () => {
  it('is quarantined in that version, and the rest is served', async () => {
    await start();
    content.set('lds', 'broken', '1');
    const peer = open('delta');
    peer.send(delta('lds', { node }));
    const first = await peer.next();
    assert.deepEqual(names(first), ['broken', 'http']);
    peer.send(delta('lds', { nonce: first.nonce, error: 'Error adding/updating listener(s) broken: cannot bind' }));
    assert.deepEqual(names(await peer.next()), ['http']);
    assert.ok(seen.includes('rejected lds Error adding/updating listener(s) broken: cannot bind [broken]'));
    const [connection] = server.connections();
    assert.deepEqual(connection?.types.get('lds')?.lastNack?.resources, ['broken']);
    assert.deepEqual([...(connection?.types.get('lds')?.quarantined ?? [])], [['broken', 'v:1']]);
    assert.equal(server.quarantined().lds, 1);
  });
});

it('a client opens a new connection after a stream whose credential was refused', async () => {
  const peers: string[] = [];
  await start({
    observer: { ...observer(), refused: (peer) => peers.push(peer) },
    authenticate: () => Promise.reject(new CtlError('unauthenticated', 'it expired')),
  });
  const one = client();
  for (let round = 0; round < 2; round++) {
    const call = openCall(one, ADS_PATHS.sotw);
    const refused = await new Promise<ServiceError>((resolve) => call.once('error', resolve));
    assert.deepEqual([refused.code, refused.details], [status.UNAUTHENTICATED, 'it expired']);
  }
  assert.equal(new Set(peers).size, 2);
});

it('a client opens a new connection after a stream whose node its certificate does not authorize', async () => {
  const peers: string[] = [];
  const identity = { trustDomain: 'cluster.local', namespace: 'bank', serviceAccount: 'web' };
  await start({
    observer: { ...observer(), refused: (peer) => peers.push(peer) },
    authenticate: () => Promise.resolve({ identity, by: 'certificate', expiresAt: Number.POSITIVE_INFINITY }),
  });
  const one = client();
  for (let round = 0; round < 2; round++) {
    const call = openCall(one, ADS_PATHS.sotw);
    call.write(sotw('cds', { node }));
    const refused = await new Promise<ServiceError>((resolve) => call.once('error', resolve));
    assert.equal(refused.code, status.PERMISSION_DENIED);
  }
  assert.equal(new Set(peers).size, 2);
});
