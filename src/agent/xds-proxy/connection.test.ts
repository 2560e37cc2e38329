import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../test/harness/eventually.ts';
import { freePorts } from '../../../test/harness/files.ts';
import { wallClock } from '../../core/wall-clock.ts';
import { openGrpcClient } from '../grpc/index.ts';
import { testRoot } from '../identity/testing/certificates.ts';
import { type LogLines, logLines } from '../identity/testing/log-lines.ts';
import type { ControlPlane } from '../settings/control-plane.ts';
import type { SecretSource, WorkloadSecrets } from '../types.ts';
import { Connection } from './connection.ts';
import { encodeNode } from './index.ts';
import { readNode, type Variant } from './messages.ts';
import { type PeerStream, responseOf, startControlPlane, type TestControlPlane } from './testing/control-plane.ts';
import { HEALTH_TYPE, NAME_TABLE_TYPE } from './types.ts';
import { createUpstream } from './upstream.ts';

const NODE_ID = 'sidecar~192.0.2.1~web.shop~shop.svc.cluster.local';
const NODE = encodeNode({
  id: NODE_ID,
  cluster: 'web',
  metadata: { NAMESPACE: 'shop', LABELS: { app: 'web' }, LIST: [1, true, null] },
  locality: { region: 'r', zone: 'z' },
});

const plain = (port: number): ControlPlane => ({ host: '127.0.0.1', port, tls: false, serverName: '' });

interface Connected {
  readonly connection: Connection;
  readonly log: LogLines;
}

function connect(
  context: TestContext,
  addresses: readonly ControlPlane[],
  options: { readonly variant?: Variant; readonly secrets?: SecretSource; readonly random?: () => number } = {},
): Connected {
  const { variant = 'delta', secrets, random = () => 0 } = options;
  const log = logLines();
  const upstream = createUpstream({ addresses, secrets, openClient: openGrpcClient, clock: wallClock, random, log });
  const connection = new Connection({
    upstream,
    variant,
    node: NODE,
    nodeId: NODE_ID,
    proxied: false,
    hostTimeoutMs: 2_000,
    noncePrefix: 'snapshot',
    clock: wallClock,
    log,
  });
  context.after(() => connection.close());
  return { connection, log };
}

/** Subscribes to the name table; returns what is received, and the reason with which the next ones are rejected. */
function names(connection: Connection): { readonly received: string[][]; reject: string | undefined } {
  const subscriber: { received: string[][]; reject: string | undefined } = { received: [], reject: undefined };
  connection.subscribe({
    typeUrl: NAME_TABLE_TYPE,
    resourceNames: [],
    receive({ set }) {
      if (subscriber.reject !== undefined) throw new Error(subscriber.reject);
      subscriber.received.push([...set.values()].map((bytes) => Buffer.from(bytes).toString()));
    },
  });
  return subscriber;
}

function streamOf({ streams }: TestControlPlane, index = 0): Promise<PeerStream> {
  return eventually(() => {
    const stream = streams[index];
    assert.ok(stream !== undefined && stream.requests.length > 0, 'no stream with a request');
    return stream;
  });
}

const table = (variant: Variant, text: string, nonce: string): Buffer =>
  responseOf(variant, NAME_TABLE_TYPE, [['', nonce, Buffer.from(text)]], { nonce });

for (const variant of ['delta', 'sotw'] as const) {
  test(`${variant}: the agent subscribes to a type, acknowledges what it accepts and rejects the rest`, async (context) => {
    const peer = await startControlPlane(context);
    const { connection } = connect(context, [plain(peer.port)], { variant });
    const subscriber = names(connection);
    const stream = await streamOf(peer);
    assert.equal(stream.variant, variant);
    assert.equal(stream.requests[0]?.typeUrl, NAME_TABLE_TYPE);
    assert.equal(readNode(stream.requests[0]?.node ?? Buffer.alloc(0)).id, NODE_ID);

    stream.send(table(variant, 'one', 'n1'));
    await eventually(() => assert.equal(stream.requests.length, 2));
    assert.deepEqual(subscriber.received, [['one']]);
    assert.deepEqual([stream.requests[1]?.nonce, stream.requests[1]?.nack], ['n1', undefined]);
    assert.equal(stream.requests[1]?.node, undefined);

    subscriber.reject = 'no such thing';
    stream.send(table(variant, 'two', 'n2'));
    await eventually(() => assert.equal(stream.requests.length, 3));
    assert.deepEqual([stream.requests[2]?.nonce, stream.requests[2]?.nack], ['n2', 'no such thing']);
    assert.equal(stream.requests[2]?.version, variant === 'sotw' ? 'n1' : '');
  });

  test(`${variant}: after a reconnect the agent reports the version that it has`, async (context) => {
    const peer = await startControlPlane(context);
    const { connection } = connect(context, [plain(peer.port)], { variant });
    const subscriber = names(connection);
    const stream = await streamOf(peer);
    stream.send(table(variant, 'one', 'n1'));
    await eventually(() => assert.equal(subscriber.received.length, 1));
    stream.end();
    const next = await streamOf(peer, 1);
    const [first] = next.requests;
    assert.equal(first?.nonce, '');
    if (variant === 'sotw') assert.equal(first?.version, 'n1');
    else assert.deepEqual([...(first?.initialVersions ?? [])], [['', 'n1']]);
    next.send(table(variant, 'two', 'n1'));
    await eventually(() => assert.deepEqual(subscriber.received.at(-1), ['two']));
  });
}

test('the latest report of health is sent again on each stream', async (context) => {
  const peer = await startControlPlane(context);
  const { connection } = connect(context, [plain(peer.port)]);
  connection.reportHealth({ healthy: true, message: '' });
  connection.reportHealth({ healthy: false, message: 'GET /healthz answered 500' });
  const stream = await streamOf(peer);
  await eventually(() => assert.equal(stream.requests.at(-1)?.nack, 'GET /healthz answered 500'));
  assert.ok(stream.requests.every(({ typeUrl }) => typeUrl === HEALTH_TYPE));
  stream.end();
  const next = await streamOf(peer, 1);
  assert.equal(next.requests[0]?.nack, 'GET /healthz answered 500');
  assert.equal(readNode(next.requests[0]?.node ?? Buffer.alloc(0)).id, NODE_ID);
  connection.reportHealth({ healthy: true, message: '' });
  await eventually(() => assert.equal(next.requests[1]?.nack, undefined));
});

test('an agent uses the next address when one refuses connections', async (context) => {
  const [closed = 0] = await freePorts(1);
  const peer = await startControlPlane(context);
  const { connection, log } = connect(context, [plain(closed), plain(peer.port)]);
  names(connection);
  await streamOf(peer);
  assert.match(log.lines.join('\n'), /warn the control plane cannot be reached.*connection refused/);
  await eventually(() => assert.equal(connection.state().connected, true));
});

/** Secrets that a test replaces. */
function secretsOf(first: WorkloadSecrets | undefined): SecretSource & { set(secrets: WorkloadSecrets): void } {
  let current = first;
  const listeners = new Set<(secrets: WorkloadSecrets) => void>();
  return {
    current: () => current,
    missing: () => (current === undefined ? 'not issued yet' : undefined),
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    start: () => undefined,
    close: () => Promise.resolve(),
    set(secrets) {
      current = secrets;
      for (const listener of listeners) listener(secrets);
    },
  };
}

/** Secrets of one mesh. */
function issuer() {
  const root = testRoot('mesh');
  const issue = (name: string): WorkloadSecrets => {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const now = Date.now();
    const chain = root.issue(publicKey, [name], 3_600_000);
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    return { certificate: { key, chain, notBefore: now, expiresAt: now + 3_600_000 }, roots: root.pem };
  };
  return { root, issue };
}

test('a control plane whose certificate has another name or root is sent nothing', async (context) => {
  const { root, issue } = issuer();
  const secrets = issue('spiffe://cluster.local/ns/shop/sa/web');
  const { certificate } = issue('meshd.mesh-system.svc');
  const peer = await startControlPlane(context, { tls: { roots: root.pem, ...certificate } });
  const foreign = { ...secrets, roots: testRoot('other').pem };
  for (const [serverName, own, reason] of [
    ['other.mesh-system.svc', secrets, /meshd\.mesh-system\.svc/],
    ['meshd.mesh-system.svc', foreign, /certificate/],
  ] as const) {
    const address = { host: '127.0.0.1', port: peer.port, tls: true, serverName };
    const { connection, log } = connect(context, [address], { secrets: secretsOf(own) });
    names(connection);
    await eventually(() => assert.match(log.lines.join('\n'), reason));
  }
  assert.equal(peer.streams.length, 0);
});

test('with TLS an agent waits for its certificate, and uses a renewed one', async (context) => {
  const { root, issue } = issuer();
  const { certificate } = issue('meshd.mesh-system.svc');
  const peer = await startControlPlane(context, { tls: { roots: root.pem, ...certificate } });
  const secrets = secretsOf(undefined);
  const address = { host: '127.0.0.1', port: peer.port, tls: true, serverName: 'meshd.mesh-system.svc' };
  const { connection } = connect(context, [address], { secrets });
  names(connection);
  assert.equal(connection.state().connected, false);

  secrets.set(issue('spiffe://cluster.local/ns/shop/sa/web'));
  const stream = await streamOf(peer);
  secrets.set(issue('spiffe://cluster.local/ns/shop/sa/web'));
  const next = await streamOf(peer, 1);
  assert.ok(stream.certificate !== undefined && next.certificate !== undefined);
  assert.notEqual(stream.certificate, next.certificate);
});
