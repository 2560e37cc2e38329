/** The providers of CA_PROVIDER, with servers of their protocols. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { envoy } from '../../protobuf/index.ts';
import type { AgentIdentityOptions } from './index.ts';
import { newCounters } from './metrics.ts';
import { SECRET_TYPE } from './sds-protocol.ts';
import { testRoot } from './testing/certificates.ts';
import { logLines } from './testing/log-lines.ts';
import { delta } from './testing/peer.ts';
import { eventually, metric, SHORT_LIFE_MS, site } from './testing/site.ts';
import { TEST_SERVER_NAME } from './testing/test-ca.ts';
import { derOf, startTestWorkloadApi, svidOf } from './testing/test-workload-api.ts';
import { createWorkloadApiSource } from './workload-api.ts';

const { Secret, SPIFFECertValidatorConfig } = envoy.extensions.transport_sockets.tls.v3;
const ID = 'spiffe://cluster.local/ns/default/sa/web';

for (const caProvider of ['Istio', 'Istiod', 'Citadel'])
  test(`${caProvider}: the service of Istio signs, and the root of its chain is trusted`, async (context) => {
    const { ca, start, writeToken } = await site(context);
    const token = await writeToken(3600);
    const identity = await start({ caProvider, secretLifetimeSeconds: 90, secretRotationCheckIntervalMs: 20 });
    await eventually(() => assert.equal(identity.secrets.current()?.roots, ca.root.pem));
    const [call] = ca.calls;
    assert.equal(call?.path, '/istio.v1.auth.IstioCertificateService/CreateCertificate');
    assert.deepEqual([call?.authorization, call?.validitySeconds], [`Bearer ${token}`, 90]);
    assert.equal(metric(identity, 'num_failed_outgoing_requests'), 0);
  });

for (const caProvider of ['GoogleCA', 'MeshCA'])
  test(`${caProvider}: an authority in a cloud signs by the token alone, even when it renews`, async (context) => {
    const { ca, start, writeToken } = await site(context);
    const token = await writeToken(3600);
    ca.lifeMs = SHORT_LIFE_MS;
    const clusterUrl = 'https://container.googleapis.com/v1/projects/p/locations/here-1/clusters/c';
    const settings = { caProvider, caAddress: `127.0.0.1:${ca.port}`, secretLifetimeSeconds: 90 };
    const identity = await start(settings, { clusterUrl, trustDomainSet: true });
    await eventually(() => assert.ok(ca.issued.length >= 2));
    assert.equal(identity.secrets.current()?.roots, ca.root.pem);
    for (const call of ca.calls) {
      assert.equal(call.path, '/google.security.meshca.v1.MeshCertificateService/CreateCertificate');
      assert.deepEqual(
        [call.authorization, call.certificate, call.validitySeconds],
        [`Bearer ${token}`, undefined, 90],
      );
      const { authorization, 'user-agent': agent, ...metadata } = call.metadata;
      assert.deepEqual(metadata, { 'x-goog-request-params': 'location=locations/here-1' });
    }
  });

test('an authority in a cloud that sends no root is refused, and so is a request without a token', async (context) => {
  const { ca, start, writeToken } = await site(context);
  const identity = await start({ caProvider: 'GoogleCA', caAddress: `127.0.0.1:${ca.port}` });
  await eventually(() => assert.ok(metric(identity, 'num_outgoing_retries') >= 2));
  assert.equal(ca.calls.length, 0);
  ca.cloudChain = () => [ca.root.pem];
  await writeToken(3600);
  await eventually(() => assert.ok(ca.calls.length >= 2));
  assert.equal(identity.secrets.current(), undefined);
  ca.cloudChain = undefined;
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
});

test('an authority in a cloud is verified by the name in CA_ADDR, not by that of the control plane', async (context) => {
  const { ca, start, writeToken } = await site(context);
  await writeToken(3600);
  const caServer = { host: 'localhost', port: ca.port, serverName: TEST_SERVER_NAME, tls: true };
  const identity = await start({ caProvider: 'GoogleCA', caAddress: `localhost:${ca.port}` }, { caServer });
  // The certificate of this server has only the name of the control plane.
  await eventually(() => assert.ok(metric(identity, 'num_failed_outgoing_requests') >= 1));
  assert.equal(ca.calls.length, 0);
  assert.equal(identity.secrets.current(), undefined);
});

/** An agent with the Workload API of a test; by its .proto file, not a SPIRE agent. */
async function workloadApi(context: TestContext) {
  const { folder, start } = await site(context);
  const path = join(folder, 'workload.sock');
  const api = await startTestWorkloadApi(path);
  context.after(() => api.close());
  const settings = { caProvider: 'SPIFFE', caAddress: `unix://${path}`, serviceAccount: 'web' };
  return { api, start: (options: Partial<AgentIdentityOptions> = {}) => start(settings, options) };
}

test('a SPIFFE Workload API (by its .proto file) is waited for, and what it pushes is served', async (context) => {
  const { api, start } = await workloadApi(context);
  const identity = await start();
  // Not registered yet.
  await eventually(() => assert.ok(metric(identity, 'num_failed_outgoing_requests') >= 2));
  const root = testRoot('spire');
  const first = svidOf(root, ID);
  api.send({ svids: [first] });
  const leaf = (): string => identity.secrets.current()?.certificate.chain ?? '';
  await eventually(() => assert.deepEqual(derOf(leaf()), first.x509Svid));
  assert.equal(identity.secrets.current()?.roots, root.pem);

  const opened = api.opened;
  const next = testRoot('next');
  const second = { ...svidOf(next, ID), bundle: Buffer.concat([derOf(root.pem), derOf(next.pem)]) };
  api.send({ svids: [second] });
  await eventually(() => assert.deepEqual(derOf(leaf()), second.x509Svid));
  assert.equal(identity.secrets.current()?.roots, root.pem + next.pem);
  assert.equal(api.opened, opened);

  // What it has stays in force while the server is unavailable.
  const third = svidOf(next, ID);
  api.send(undefined);
  api.drop();
  await eventually(() => assert.ok(api.opened > opened + 1));
  assert.deepEqual(derOf(leaf()), second.x509Svid);
  api.send({ svids: [third] });
  await eventually(() => assert.deepEqual(derOf(leaf()), third.x509Svid));
});

test('the identity of the proxy is chosen among several SPIFFE identities, and that of another workload is refused', async (context) => {
  const { api, start } = await workloadApi(context);
  const root = testRoot('spire');
  const own = svidOf(root, ID);
  const other = svidOf(root, 'spiffe://cluster.local/ns/default/sa/other');
  api.send({ svids: [svidOf(root, 'spiffe://cluster.local/ns/bank/sa/web')] });
  const identity = await start();
  await eventually(() => assert.ok(metric(identity, 'num_failed_outgoing_requests') >= 2));
  assert.equal(identity.secrets.current(), undefined);
  for (const broken of [
    { svids: [] },
    { svids: [{ ...own, x509SvidKey: other.x509SvidKey }] },
    { svids: [{ ...own, bundle: Buffer.alloc(0) }] },
    { svids: [{ ...own, x509Svid: own.x509Svid.subarray(0, 50) }] },
  ]) {
    const failed = metric(identity, 'num_failed_outgoing_requests');
    api.send(broken);
    await eventually(() => assert.ok(metric(identity, 'num_failed_outgoing_requests') > failed));
    assert.equal(identity.secrets.current(), undefined);
  }
  api.send({ svids: [other, own] });
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
  assert.deepEqual(derOf(identity.secrets.current()?.certificate.chain ?? ''), own.x509Svid);
});

test('a SPIFFE identity of another trust domain than the configured one is refused', async (context) => {
  const { api, start } = await workloadApi(context);
  const root = testRoot('spire');
  const foreign = svidOf(root, 'spiffe://other.example/ns/default/sa/web');
  const own = svidOf(root, ID);
  const identity = await start({ trustDomainSet: true });
  for (const refused of [foreign, svidOf(root, 'localhost')]) {
    const failed = metric(identity, 'num_failed_outgoing_requests');
    api.send({ svids: [refused] });
    // One failure may be of the answer before.
    await eventually(() => assert.ok(metric(identity, 'num_failed_outgoing_requests') > failed + 1));
    assert.equal(identity.secrets.current(), undefined);
  }
  api.send({ svids: [foreign, own] });
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
  assert.deepEqual(derOf(identity.secrets.current()?.certificate.chain ?? ''), own.x509Svid);
});

test('a SPIFFE Workload API that accepts connections and never answers is a failure', async (context) => {
  const { folder, start } = await site(context);
  const path = join(folder, 'silent.sock');
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket.resume().on('error', () => undefined)));
  server.listen(path);
  await once(server, 'listening');
  context.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const clock = fakeClock({ start: Date.now() });
  const identity = await start({ caProvider: 'SPIFFE', caAddress: `unix://${path}` }, { clock });
  await eventually(() => assert.equal(sockets.size, 1));
  assert.equal(metric(identity, 'num_failed_outgoing_requests'), 0);
  await clock.advance(30_000);
  await eventually(() => assert.equal(metric(identity, 'num_failed_outgoing_requests'), 1));
  await eventually(() => assert.ok([...sockets].every((socket) => socket.closed || socket.readableEnded)));
});

test('a certificate that the SPIFFE Workload API does not replace in time is reported', async (context) => {
  const path = join(await mkdtemp(join(tmpdir(), 'spiffe-')), 'workload.sock');
  const api = await startTestWorkloadApi(path);
  const clock = fakeClock({ start: Date.now() });
  const log = logLines();
  const announced = { namespace: 'default', serviceAccount: 'web' };
  const more = { initialBackoffMs: 20, random: () => 0, counters: newCounters() };
  const source = createWorkloadApiSource({ ...more, path, announced, clock, log });
  context.after(async () => {
    await source.close();
    api.close();
    await rm(dirname(path), { recursive: true, force: true });
  });
  api.send({ svids: [svidOf(testRoot('spire'), ID, 60_000)] });
  source.start();
  await eventually(() => assert.notEqual(source.current(), undefined));
  await clock.advance(60_000);
  assert.ok(log.lines.includes('error the certificate has expired'), log.lines.join());
});

test('the address of a SPIFFE Workload API that cannot be a socket ends the agent', async (context) => {
  const { start } = await site(context);
  for (const caAddress of ['unix://relative', 'tcp://127.0.0.1:1', '', `unix:///${'a'.repeat(107)}`])
    await assert.rejects(start({ caProvider: 'SPIFFE', caAddress }), { code: 'invalid_argument' });
});

test('roots of federated trust domains verify certificates of their own domain only', async (context) => {
  const { api, start } = await workloadApi(context);
  const [root, foreign] = [testRoot('spire'), testRoot('foreign')];
  api.send({ svids: [svidOf(root, ID)], federatedBundles: { 'spiffe://partner.example': derOf(foreign.pem) } });
  const identity = await start();
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
  const { answers, send, close } = delta(identity.sdsPath);
  context.after(close);
  send({ typeUrl: SECRET_TYPE, resourceNamesSubscribe: ['ROOTCA', 'CONTROLPLANE'] });
  await eventually(() => assert.equal(answers.length, 1));
  const [peers, controlPlane] = (answers[0]?.resources ?? []).map(({ resource }) =>
    Secret.decode(resource?.value ?? new Uint8Array()),
  );
  const text = (bytes: Uint8Array | null | undefined): string => Buffer.from(bytes ?? []).toString();
  assert.equal(text(controlPlane?.validationContext?.trustedCa?.inlineBytes), root.pem);
  const config = peers?.validationContext?.customValidatorConfig?.typedConfig?.value ?? new Uint8Array();
  const domains = SPIFFECertValidatorConfig.decode(config).trustDomains.map(({ name, trustBundle }) => [
    name,
    text(trustBundle?.inlineBytes),
  ]);
  assert.deepEqual(domains.sort(), [
    ['cluster.local', new X509Certificate(root.pem).toString()],
    ['partner.example', new X509Certificate(foreign.pem).toString()],
  ]);
});
