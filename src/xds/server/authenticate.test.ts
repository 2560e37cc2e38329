/** Authentication of streams, over real sockets. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type Client, type ServiceError, status } from '@grpc/grpc-js';
import { CtlError } from '../../core/errors.ts';
import { XDS } from '../../core/xds-types.ts';
import type { Caller } from '../../security/types.ts';
import { Content, encodeNode, encodeSotwRequest, SIDECAR_ID } from '../testing/content.ts';
import { FakeEngine, quietObserver } from '../testing/engine.ts';
import { asIs, openCall } from '../testing/peer.ts';
import { clientOf, testServer } from '../testing/server.ts';
import type { XdsServer } from './server.ts';
import { ADS_PATHS, HEALTH_PATHS } from './services.ts';

let server: XdsServer;
let client: Client;
/** The result of the pending authentication. */
let answer: PromiseWithResolvers<Caller | undefined>;
let asked = 0;
let refused: string[] = [];
/** Of every Pod; undefined: no Pod is known. */
let podAddress: string | undefined;

beforeEach(async () => {
  const content = new Content();
  content.set('cds', 'a', '1');
  answer = Promise.withResolvers();
  asked = 0;
  refused = [];
  podAddress = undefined;
  server = testServer({
    engine: new FakeEngine(content),
    observer: { ...quietObserver, refused: (_peer, error) => refused.push(error.oneLine()) },
    maxReceiveBytes: 1024 * 1024,
    maxStreams: 2,
    podOf: () =>
      podAddress === undefined
        ? undefined
        : { serviceAccount: 'web', uid: 'uid', has: (address) => address === podAddress },
    ownCluster: 'home',
    authenticate: () => {
      asked++;
      return answer.promise;
    },
  });
  await server.start();
  client = clientOf(server);
});
afterEach(async () => {
  client.close();
  await server.close({ drainMs: 0 });
});

function open(from = client) {
  const call = openCall(from, ADS_PATHS.sotw);
  const outcome = new Promise<string>((resolve) => {
    call.once('data', () => resolve('served'));
    call.once('error', ({ code, details }: ServiceError) => resolve(`${status[code]}: ${details}`));
  });
  call.write(
    encodeSotwRequest({
      typeUrl: XDS.cds.url,
      node: encodeNode(SIDECAR_ID, { NAMESPACE: 'shop', CLUSTER_ID: 'elsewhere' }),
    }),
  );
  return { call, outcome };
}

/** Resolves when the server has read what was sent before on the connection. */
function serverHasRead(): Promise<unknown> {
  return new Promise((resolve) => client.makeUnaryRequest(HEALTH_PATHS.check, asIs, asIs, Buffer.alloc(0), resolve));
}

async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
}

const identity = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'web' };
const web = (changes: Partial<Caller> = {}): Caller => ({
  identity,
  by: 'token',
  expiresAt: Number.MAX_SAFE_INTEGER,
  ...changes,
});

describe('a stream that is authenticated', { timeout: 120_000 }, () => {
  it('is answered what it sent before it was authenticated', async () => {
    const { outcome } = open();
    await until(() => asked === 1);
    assert.deepEqual(server.connections(), []);
    answer.resolve(web());
    assert.equal(await outcome, 'served');
    assert.equal(server.connections()[0]?.node.serviceAccount, 'web');
  });

  it('is in the cluster of the Pod of its credential', async () => {
    const { outcome } = open();
    answer.resolve(web({ pod: { name: 'web-1', uid: 'uid' } }));
    assert.equal(await outcome, 'served');
    assert.equal(server.connections()[0]?.node.clusterId, 'home');
  });

  it('is not read at all when authentication fails, however malformed its message is', async () => {
    const call = openCall(client, ADS_PATHS.sotw);
    const ended = new Promise<number>((resolve) => call.once('error', ({ code }: ServiceError) => resolve(code)));
    call.on('data', () => {});
    call.write(Buffer.alloc(500_000, 0xff));
    await until(() => asked === 1);
    answer.reject(new CtlError('unauthenticated', 'who are you'));
    assert.equal(await ended, status.UNAUTHENTICATED);
    assert.deepEqual(refused, ['who are you']);
  });

  it('counts as an open stream', async () => {
    const two = [open(), open()];
    await until(() => asked === 2);
    // The limit holds for a connection, too.
    const other = clientOf(server);
    assert.equal(await open(other).outcome, 'RESOURCE_EXHAUSTED: more than 2 streams, or too many from this address');
    other.close();
    answer.resolve(web());
    for (const { outcome } of two) assert.equal(await outcome, 'served');
  });

  it('that ends during authentication leaves nothing behind', async () => {
    const { call, outcome } = open();
    await until(() => asked === 1);
    call.cancel();
    assert.match(await outcome, /^CANCELLED/);
    await new Promise((resolve) => setTimeout(resolve, 50));
    answer.resolve(web());
    assert.equal(await open().outcome, 'served');
    assert.equal(server.connections().length, 1);
  });

  const endings: readonly [how: string, end: (call: ReturnType<typeof open>['call']) => void][] = [
    ['the client cancels before it is authenticated', (call) => call.cancel()],
    ['its caller is not authenticated', () => answer.reject(new CtlError('unauthenticated', 'nobody'))],
    ['authentication fails with an internal error', () => answer.reject(new Error('a bug'))],
    [
      'its caller is not authorized for its node',
      () => answer.resolve(web({ identity: { ...identity, namespace: 'other' } })),
    ],
    ['what it sends cannot be read', (call) => void call.write(Buffer.from([0xff]), () => answer.resolve(web()))],
  ];
  for (const [how, end] of endings)
    it(`makes way for another one when ${how}`, async () => {
      for (let round = 1; round <= 3; round++) {
        answer = Promise.withResolvers();
        const calls = [open(), open()];
        await until(() => asked === 2 * round);
        for (const { call } of calls) end(call);
        for (const { outcome } of calls) assert.notEqual(await outcome, 'served');
        await serverHasRead();
        answer.resolve(web());
      }
      answer = Promise.withResolvers();
      answer.resolve(web());
      assert.equal(await open().outcome, 'served');
    });

  it('is refused a node that its caller is not authorized for', async () => {
    answer.resolve(web({ identity: { ...identity, namespace: 'bank' } }));
    assert.match(await open().outcome, /^PERMISSION_DENIED: node.metadata.NAMESPACE: is "shop"/);
  });

  it('is refused a node that is not the Pod of its credential, or has not the address of that Pod', async () => {
    answer.resolve(web({ pod: { name: 'web-9', uid: 'uid' } }));
    assert.match(await open().outcome, /^PERMISSION_DENIED: node.id: is "[^"]+", but .* is for "web-9"/);
    const [, , workload = ''] = SIDECAR_ID.split('~');
    answer = Promise.withResolvers();
    answer.resolve(web({ pod: { name: workload.split('.')[0] ?? '', uid: 'uid' } }));
    assert.equal(await open().outcome, 'served');
    podAddress = '10.9.9.9';
    assert.match(await open().outcome, /^PERMISSION_DENIED: node.id: .* is not an address of the Pod/);
  });

  it('ends when its credential expires', async () => {
    answer.resolve(web({ expiresAt: Date.now() + 300 }));
    const { call, outcome } = open();
    assert.equal(await outcome, 'served');
    const { code } = await new Promise<ServiceError>((resolve) => call.once('error', resolve));
    assert.equal(code, status.UNAVAILABLE);
    assert.deepEqual(server.connections(), []);
  });
});
