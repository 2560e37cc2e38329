/** The server of secrets with clients of both protocol variants. */
import assert from 'node:assert/strict';
import { connect } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { test } from 'node:test';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { envoy } from '../../protobuf/index.ts';
import { SECRET_TYPE } from './sds-protocol.ts';
import { testRoot } from './testing/certificates.ts';
import { delta, METHOD, peer, sotw } from './testing/peer.ts';
import { eventually, metric, site } from './testing/site.ts';

const { Secret } = envoy.extensions.transport_sockets.tls.v3;

const chainIn = (bytes: Uint8Array | undefined): string =>
  Buffer.from(Secret.decode(bytes ?? new Uint8Array()).tlsCertificate?.certificateChain?.inlineBytes ?? []).toString();

test('State of the World: a stream waits for secrets, and is then sent only changed ones', async (context) => {
  const { ca, start, writeToken } = await site(context);
  await writeToken(100);
  ca.failure = { code: 14, details: 'away' };
  const identity = await start({ secretRotationCheckIntervalMs: 100 });
  const { answers, send, close } = sotw(identity.sdsPath);
  context.after(close);
  send({ typeUrl: SECRET_TYPE, resourceNames: ['default', 'ROOTCA', 'unknown'] });
  await eventually(() => assert.equal(metric(identity, 'total_active_connections'), 1));
  assert.equal(answers.length, 0);
  ca.failure = undefined;
  await eventually(() => assert.equal(answers.length, 1));
  const names = (index: number): string[] =>
    (answers[index]?.resources ?? []).map(({ value }) => Secret.decode(value ?? new Uint8Array()).name ?? '');
  assert.deepEqual(names(0), ['default', 'ROOTCA']);
  assert.equal(chainIn(answers[0]?.resources?.[0]?.value ?? undefined), identity.secrets.current()?.certificate.chain);

  // Unacknowledged: further changes wait.
  ca.bundle = [ca.root.pem, testRoot('b').pem];
  await eventually(() => assert.equal(identity.secrets.current()?.roots.length, ca.bundle?.join('').length));
  assert.equal(answers.length, 1);
  const again = { typeUrl: SECRET_TYPE, resourceNames: ['default', 'ROOTCA', 'unknown'] };
  send({ ...again, responseNonce: 'of no response' });
  send({ ...again, responseNonce: answers[0]?.nonce ?? '', versionInfo: answers[0]?.versionInfo ?? '' });
  await eventually(() => assert.equal(answers.length, 2));
  assert.deepEqual(names(1), ['ROOTCA']);

  // A rejection is counted; nothing is sent until there is a new version.
  send({ ...again, responseNonce: answers[1]?.nonce ?? '', errorDetail: { code: 13, message: 'no' } });
  await eventually(() => assert.equal(metric(identity, 'total_secret_update_failures'), 1));
  assert.equal(metric(identity, 'total_pushes'), 2);
  ca.bundle = [ca.root.pem];
  await eventually(() => assert.equal(answers.length, 3));
});

test('Delta: missing secrets are removed, known versions not sent, new subscriptions answered', async (context) => {
  const { start, writeToken } = await site(context);
  await writeToken(100);
  const identity = await start();
  const first = delta(identity.sdsPath);
  context.after(first.close);
  first.send({ typeUrl: SECRET_TYPE, resourceNamesSubscribe: ['default', 'unknown'] });
  await eventually(() => assert.equal(first.answers.length, 1));
  assert.deepEqual(first.answers[0]?.removedResources, ['unknown']);
  const [known] = first.answers[0]?.resources ?? [];
  assert.equal(known?.name, 'default');
  assert.equal(chainIn(known?.resource?.value ?? undefined), identity.secrets.current()?.certificate.chain);

  const second = delta(identity.sdsPath);
  context.after(second.close);
  second.send({
    typeUrl: SECRET_TYPE,
    resourceNamesSubscribe: ['default', 'ROOTCA'],
    initialResourceVersions: { default: known?.version ?? '' },
  });
  await eventually(() => assert.equal(second.answers.length, 1));
  assert.deepEqual(
    second.answers[0]?.resources?.map(({ name }) => name),
    ['ROOTCA'],
  );
  second.send({
    typeUrl: SECRET_TYPE,
    responseNonce: second.answers[0]?.nonce ?? '',
    resourceNamesSubscribe: ['default'],
  });
  await eventually(() => assert.equal(second.answers.length, 2));
  assert.equal(second.answers[1]?.resources?.[0]?.name, 'default');
});

for (const [what, request, code] of [
  ['another type', { typeUrl: 'type.googleapis.com/envoy.config.cluster.v3.Cluster', resourceNames: ['x'] }, 3],
  ['too many names', { resourceNames: Array.from({ length: 200 }, (_, index) => `n${index}`) }, 8],
  ['a name without end', { resourceNames: ['x'.repeat(5_000)] }, 3],
  ['a message without end', { resourceNames: ['x'.repeat(5 * 1024 * 1024)] }, 8],
] as const) {
  test(`${what} ends the stream, and no other`, async (context) => {
    const { start, writeToken } = await site(context);
    await writeToken(100);
    const identity = await start();
    const good = sotw(identity.sdsPath);
    const bad = sotw(identity.sdsPath);
    context.after(good.close);
    context.after(bad.close);
    bad.send({ ...request, resourceNames: [...request.resourceNames] });
    assert.equal((await bad.ended).code, code);
    good.send({ resourceNames: ['default'] });
    await eventually(() => assert.equal(good.answers.length, 1));
  });
}

test('other methods are answered as unimplemented', async (context) => {
  const { start } = await site(context);
  const identity = await start();
  const fetch = peer(
    identity.sdsPath,
    'FetchSecrets',
    () => new Uint8Array(),
    (bytes) => bytes,
  );
  context.after(fetch.close);
  fetch.send({});
  assert.equal((await fetch.ended).code, 12);
});

test('connections without a live peer, and streams without requests, are closed and counted', async (context) => {
  const { start } = await site(context);
  const clock = fakeClock({ start: Date.now() });
  const intervalMs = 500;
  // PINGs follow the machine's clock.
  const identity = await start({ staleConnectionIntervalMs: intervalMs }, { clock });
  // Opens HTTP/2 (RFC 9113 section 3.4: the preface and empty SETTINGS), then is silent like a stopped process.
  const socket = connectSocket(identity.sdsPath);
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0');
  const closed = new Promise((resolve) => socket.on('close', resolve));
  // The server's SETTINGS: it has a session now.
  await new Promise((resolve) => socket.once('data', resolve));
  // A second one answers pings, but sends no request.
  const quiet = connect('http://localhost', { createConnection: () => connectSocket(identity.sdsPath) });
  context.after(() => quiet.destroy());
  const trailers = new Promise((resolve) => {
    quiet
      .request({ ':method': 'POST', ':path': `${METHOD}DeltaSecrets`, 'content-type': 'application/grpc' })
      .on('trailers', (headers) => resolve(headers['grpc-status']))
      .resume();
  });
  await eventually(() => assert.equal(metric(identity, 'total_active_connections'), 1));
  await closed;
  await eventually(() => assert.equal(metric(identity, 'total_stale_connections'), 1));
  await clock.advance(2 * intervalMs);
  assert.equal(await trailers, '9');
  assert.equal(metric(identity, 'total_stale_connections'), 2);
  await eventually(() => assert.equal(metric(identity, 'total_active_connections'), 0), clock);
});
