/** The whole room against a certificate service of the test's own, with gRPC's own client as the proxy. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:http2';
import { connect as connectSocket, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Client, type ClientDuplexStream, credentials, Metadata } from '@grpc/grpc-js';
import { defaultAgentSettings } from '../../cli/index.ts';
import { envoy } from '../../protobuf/index.ts';
import type { AgentIdentity } from '../types.ts';
import { readCertFiles, writeCertFiles } from './cert-files.ts';
import { secretsOf } from './certificates.ts';
import { type AgentIdentityOptions, type IdentitySettings, startAgentIdentity } from './index.ts';
import { SECRET_TYPE } from './messages.ts';
import { certificateSet, type TestRoot, testRoot } from './testing/certificates.ts';
import { type FakeClock, fakeClock } from './testing/fake-clock.ts';
import { startTestCa, TEST_IDENTITY, TEST_SERVER_NAME, type TestCa, type TestCaOptions } from './testing/test-ca.ts';

const URI = 'spiffe://cluster.local/ns/default/sa/web';
const discovery = envoy.service.discovery.v3;
const { Secret } = envoy.extensions.transport_sockets.tls.v3;

interface Site {
  readonly folder: string;
  readonly ca: TestCa;
  readonly files: { readonly roots: string; readonly token: string };
  start(settings?: Partial<IdentitySettings>, options?: Partial<AgentIdentityOptions>): Promise<AgentIdentity>;
  writeToken(expiresInSeconds: number): Promise<string>;
}

async function site(context: TestContext, options: TestCaOptions = {}): Promise<Site> {
  const folder = await mkdtemp(join(tmpdir(), 'identity-'));
  const ca = await startTestCa(options);
  const started: AgentIdentity[] = [];
  context.after(async () => {
    await Promise.all(started.map((identity) => identity.close()));
    ca.close();
    await rm(folder, { recursive: true });
  });
  const files = { roots: join(folder, 'root.pem'), token: join(folder, 'token') };
  await writeFile(files.roots, ca.root.pem);
  return {
    folder,
    ca,
    files,
    async start(settings = {}, more = {}) {
      const identity = await startAgentIdentity({
        identity: TEST_IDENTITY,
        caServer: { host: '127.0.0.1', port: ca.port, serverName: TEST_SERVER_NAME, tls: true },
        sdsPath: join(folder, 'sds', 'SDS'),
        settings: defaultAgentSettings({
          caRootsFile: files.roots,
          caTokenFile: files.token,
          eccSignatureAlgorithm: 'ECDSA',
          initialBackoffMs: 20,
          ...settings,
        }),
        ...more,
      });
      started.push(identity);
      return identity;
    },
    async writeToken(seconds) {
      const claims = Buffer.from(JSON.stringify({ exp: Math.round(Date.now() / 1000) + seconds, id: Math.random() }));
      const token = `e30.${claims.toString('base64url')}.c2ln`;
      await writeFile(files.token, token);
      return token;
    },
  };
}

/** Waits in real time: the other side is another event loop's or the network's. */
async function eventually(check: () => void, clock?: FakeClock): Promise<void> {
  for (let turn = 0; ; turn++) {
    try {
      check();
      return;
    } catch (error) {
      if (turn === 500) throw error;
    }
    await clock?.advance(10);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const metric = (identity: AgentIdentity, name: string): number =>
  identity.metrics().find((each) => each.name === name)?.value ?? Number.NaN;

const METHOD = '/envoy.service.secret.v3.SecretDiscoveryService/';

interface Peer<Q, A> {
  readonly answers: A[];
  readonly ended: Promise<{ readonly code: number; readonly details: string }>;
  send(request: Q): void;
  close(): void;
}

function peer<Q, A>(
  path: string,
  method: string,
  encode: (request: Q) => Uint8Array,
  decode: (bytes: Buffer) => A,
): Peer<Q, A> {
  const client = new Client(`unix:${path}`, credentials.createInsecure());
  const stream: ClientDuplexStream<Q, A> = client.makeBidiStreamRequest(
    METHOD + method,
    (request) => Buffer.from(encode(request)),
    decode,
    new Metadata(),
  );
  const answers: A[] = [];
  const ended = Promise.withResolvers<{ code: number; details: string }>();
  stream.on('data', (answer: A) => answers.push(answer));
  stream.on('error', () => undefined);
  stream.on('status', ended.resolve);
  return { answers, ended: ended.promise, send: (request) => void stream.write(request), close: () => client.close() };
}

const sotw = (path: string) =>
  peer(
    path,
    'StreamSecrets',
    (request: Parameters<typeof discovery.DiscoveryRequest.encode>[0]) =>
      discovery.DiscoveryRequest.encode(request).finish(),
    (bytes) => discovery.DiscoveryResponse.decode(bytes),
  );

const delta = (path: string) =>
  peer(
    path,
    'DeltaSecrets',
    (request: Parameters<typeof discovery.DeltaDiscoveryRequest.encode>[0]) =>
      discovery.DeltaDiscoveryRequest.encode(request).finish(),
    (bytes) => discovery.DeltaDiscoveryResponse.decode(bytes),
  );

const chainIn = (bytes: Uint8Array | undefined): string =>
  Buffer.from(Secret.decode(bytes ?? new Uint8Array()).tlsCertificate?.certificateChain?.inlineBytes ?? []).toString();

test('the token is read again for each request, and the certificate goes along once there is one', async (context) => {
  const { ca, start, writeToken } = await site(context);
  ca.lifeMs = 1_500;
  const first = await writeToken(3600);
  const identity = await start({ secretTtlMs: 90_000 });
  await eventually(() => assert.equal(ca.calls.length, 2));
  const second = await writeToken(3600);
  await eventually(() => assert.equal(ca.calls.length, 4));
  const signing = ca.calls.filter(({ method }) => method === 'CreateCertificate');
  assert.deepEqual(
    signing.map(({ authorization }) => authorization),
    [`Bearer ${first}`, `Bearer ${second}`],
  );
  assert.equal(signing[0]?.validitySeconds, 90);
  assert.equal(metric(identity, 'num_outgoing_requests'), 4);
  assert.equal(metric(identity, 'num_failed_outgoing_requests'), 0);
});

test('an ended token is not sent; a new one is found without help', async (context) => {
  const { ca, start, writeToken } = await site(context);
  await writeToken(-10);
  const identity = await start();
  await eventually(() => assert.ok(metric(identity, 'num_outgoing_retries') >= 3));
  assert.equal(ca.calls.length, 0);
  await writeToken(10);
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
});

test('SKIP_PARSE_TOKEN sends what it finds', async (context) => {
  const { ca, start, files } = await site(context);
  await writeFile(files.token, 'opaque');
  await start({ skipParseToken: true });
  await eventually(() => assert.equal(ca.calls[0]?.authorization, 'Bearer opaque'));
});

async function provision(directory: string, root: TestRoot): Promise<string> {
  const set = certificateSet(root, URI);
  await writeCertFiles(directory, secretsOf(set.key, [set.leaf], set.root, Date.now()));
  return new X509Certificate(set.leaf).fingerprint256;
}

test('a virtual machine: the provisioned certificate asks first, the own one after that, and OUTPUT_CERTS after a restart', async (context) => {
  const { ca, start, folder } = await site(context, { certificateRequired: true });
  const provisioned = join(folder, 'provisioned');
  const output = join(folder, 'out');
  const given = await provision(provisioned, ca.root);
  ca.lifeMs = 1_500;
  const settings = { provCert: provisioned, outputCerts: output, caRootsFile: join(folder, 'none') };
  const identity = await start(settings);
  const own = new Promise<string>((resolve) => {
    const stop = identity.secrets.onChange(({ certificate }) => {
      stop();
      resolve(new X509Certificate(certificate.chain).fingerprint256);
    });
  });
  await eventually(() => assert.equal(ca.calls.length, 4));
  assert.deepEqual(
    ca.calls.map(({ certificate }) => certificate),
    [given, given, await own, await own],
  );
  assert.equal(ca.calls[0]?.authorization, undefined);
  ca.lifeMs = 3_600_000;
  await eventually(() => assert.ok((identity.secrets.current()?.certificate.expiresAt ?? 0) > Date.now() + 60_000));
  await identity.close();
  const kept = await readCertFiles(output, Date.now());
  assert.equal(kept.certificate.key, identity.secrets.current()?.certificate.key);
  const calls = ca.calls.length;
  await start(settings);
  await eventually(() => assert.ok(ca.calls.length > calls));
  assert.equal(ca.calls[calls]?.certificate, new X509Certificate(kept.certificate.chain).fingerprint256);
});

test('USE_TOKEN_FOR_CSR: without a token nothing is asked, even with a certificate', async (context) => {
  const { ca, start, folder, writeToken } = await site(context);
  const provisioned = join(folder, 'provisioned');
  await provision(provisioned, ca.root);
  const identity = await start({ provCert: provisioned, useTokenForCsr: true });
  await eventually(() => assert.ok(metric(identity, 'num_outgoing_retries') >= 3));
  assert.equal(ca.calls.length, 0);
  await writeToken(100);
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
});

test('an authority that is not what the roots file says is sent no token; a new roots file is read', async (context) => {
  const { ca, start, files, writeToken } = await site(context);
  await writeToken(100);
  await writeFile(files.roots, testRoot('another').pem);
  const identity = await start();
  await eventually(() => assert.ok(metric(identity, 'num_failed_outgoing_requests') >= 2));
  assert.equal(ca.calls.length, 0);
  await writeFile(files.roots, ca.root.pem);
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
});

test('State of the World: waits for the first secrets, acknowledges, is pushed what changed and no more', async (context) => {
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

  // Unacknowledged: what changes meanwhile waits.
  ca.bundle = [ca.root.pem, testRoot('b').pem];
  await eventually(() => assert.equal(identity.secrets.current()?.roots.length, ca.bundle?.join('').length));
  assert.equal(answers.length, 1);
  const again = { typeUrl: SECRET_TYPE, resourceNames: ['default', 'ROOTCA', 'unknown'] };
  send({ ...again, responseNonce: 'of no response' });
  send({ ...again, responseNonce: answers[0]?.nonce ?? '', versionInfo: answers[0]?.versionInfo ?? '' });
  await eventually(() => assert.equal(answers.length, 2));
  assert.deepEqual(names(1), ['ROOTCA']);

  // A rejection is counted; nothing is sent until there is something new.
  send({ ...again, responseNonce: answers[1]?.nonce ?? '', errorDetail: { code: 13, message: 'no' } });
  await eventually(() => assert.equal(metric(identity, 'total_secret_update_failures'), 1));
  assert.equal(metric(identity, 'total_pushes'), 2);
  ca.bundle = [ca.root.pem];
  await eventually(() => assert.equal(answers.length, 3));
});

test('Delta: removes what does not exist, sends nothing that is known by its version, and all that is asked for again', async (context) => {
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
  test(`${what} ends the stream, and only that`, async (context) => {
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

test('methods that are not served are said to be', async (context) => {
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

test('connections without a live peer, and streams that ask for nothing, are closed and counted', async (context) => {
  const { start } = await site(context);
  const clock = fakeClock();
  const identity = await start({ staleConnectionIntervalMs: 60_000 }, { clock });
  // Opens HTTP/2 (RFC 9113 section 3.4: the preface and empty SETTINGS), then is as silent as a stopped process.
  const socket = connectSocket(identity.sdsPath);
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0');
  const closed = new Promise((resolve) => socket.on('close', resolve));
  // The server's own SETTINGS: it has a session now.
  await new Promise((resolve) => socket.once('data', resolve));
  // A second one answers pings, and only never asks.
  const quiet = connect('http://localhost', { createConnection: () => connectSocket(identity.sdsPath) });
  context.after(() => quiet.destroy());
  const trailers = new Promise((resolve) => {
    quiet
      .request({ ':method': 'POST', ':path': `${METHOD}DeltaSecrets`, 'content-type': 'application/grpc' })
      .on('trailers', (headers) => resolve(headers['grpc-status']))
      .resume();
  });
  await eventually(() => assert.equal(metric(identity, 'total_active_connections'), 1));
  await clock.advance(60_000);
  // Time for the pong of the one that is alive.
  await new Promise((resolve) => setTimeout(resolve, 200));
  await clock.advance(10_000);
  assert.equal(metric(identity, 'total_stale_connections'), 1);
  await clock.advance(50_000);
  assert.equal(await trailers, '9');
  assert.equal(metric(identity, 'total_stale_connections'), 2);
  await eventually(() => assert.equal(metric(identity, 'total_active_connections'), 0), clock);
  await closed;
});

test("the socket is the owner's; a dead process's is replaced, a live one's and other files are left alone", async (context) => {
  const { folder, start } = await site(context);
  const path = join(folder, 'own', 'SDS');
  const first = await start({}, { sdsPath: path });
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.equal((await stat(join(folder, 'own'))).mode & 0o777, 0o700);
  await assert.rejects(start({}, { sdsPath: path }), {
    code: 'already_exists',
    message: 'another process serves secrets here',
  });
  await first.close();
  await assert.rejects(stat(path), { code: 'ENOENT' });

  // What a killed process leaves: a socket that nobody listens on.
  const left = createServer();
  await new Promise<void>((resolve) => left.listen(`${path}.bound`, resolve));
  await rename(`${path}.bound`, path);
  await new Promise((resolve) => left.close(resolve));
  assert.ok((await stat(path)).isSocket());
  await start({}, { sdsPath: path });

  await writeFile(join(folder, 'file'), 'precious');
  await assert.rejects(start({}, { sdsPath: join(folder, 'file') }), { code: 'already_exists' });
  await assert.rejects(start({}, { sdsPath: join(folder, 'x'.repeat(200)) }), { code: 'invalid_argument' });
});

for (const [what, settings, options, field] of [
  ['another provider', { caProvider: 'Cloud' }, {}, 'CA_PROVIDER'],
  ['another signature', { eccSignatureAlgorithm: 'DSA' }, {}, 'ECC_SIGNATURE_ALGORITHM'],
  ['another policy', { jwtPolicy: 'none', caTokenFile: '' }, {}, 'JWT_POLICY'],
  ['a share that is none', { secretGracePeriodRatio: 1.5 }, {}, 'SECRET_GRACE_PERIOD_RATIO'],
  ['plain text', {}, { caServer: { host: 'meshd', port: 15010, serverName: 'meshd', tls: false } }, 'CA_ADDR'],
] as const) {
  test(`${what} is refused before anything is started`, async (context) => {
    const { start } = await site(context);
    await assert.rejects(start(settings, options), { name: 'CtlError', location: { field } });
  });
}
