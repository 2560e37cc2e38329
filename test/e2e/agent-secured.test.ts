/**
 * `ctl-agent proxy` with a control plane over TLS: Envoy gets the workload's certificate from the agent's socket, and
 * the certificate is rotated.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startTestCa, TEST_SERVER_NAME } from '../../src/agent/identity/testing/test-ca.ts';
import { eventually, freePort, type Owner, startAgent, startDiscovery, tempDir } from '../harness/index.ts';

const SECOND = 1000;

/** An authority, and a control plane with a certificate of it that requires one of its callers. */
async function securedControlPlane(owner: Owner, { name = TEST_SERVER_NAME, flags = [] as string[] } = {}) {
  const ca = await startTestCa();
  owner.after(() => ca.close());
  const folder = await tempDir(owner);
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const roots = await file('root-cert.pem', ca.root.pem);
  const port = await freePort();
  await startDiscovery(owner, {
    configDir: await tempDir(owner),
    flags: [
      ['--secureGRPCAddr', `127.0.0.1:${port}`],
      ['--tlsCertFile', await file('cert.pem', ca.root.issue(publicKey, [name], 3600 * SECOND))],
      ['--tlsKeyFile', await file('key.pem', privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())],
      ['--caCertFile', roots],
      flags,
    ].flat(),
  });
  const env = {
    CA_ADDR: `127.0.0.1:${ca.port}`,
    CA_ROOT_CA: roots,
    CA_TOKEN_FILE: await file('token', 'token'),
    SKIP_PARSE_TOKEN: 'true',
    SERVICE_ACCOUNT: 'web',
  };
  return { ca, env, address: `127.0.0.1:${port}` };
}

test('xDS uses TLS with the workload’s certificate, which is rotated in time', async (t) => {
  const { ca, env, address } = await securedControlPlane(t);
  ca.lifeMs = 6 * SECOND;
  const agent = await startAgent(t, { name: 'web', discoveryAddress: address, env });
  const scrape = async () => (await agent.http('status', '/stats/prometheus')).body;
  const pushes = async () => Number(/^total_pushes (\d+)$/m.exec(await scrape())?.[1]);
  const first = await pushes();
  assert.ok(first >= 2, `${first} pushes`);
  // After two rotations the first certificate has expired.
  await eventually(async () => assert.ok((await pushes()) >= first + 3), { timeoutMs: 40 * SECOND });
  assert.equal(await agent.readiness(), 200);
  await eventually(async () => assert.match(await agent.admin('/stats?filter=connected_state'), /connected_state: 1/));
  assert.match(await agent.admin('/certs'), /spiffe:\/\/cluster\.local\/ns\/default\/sa\/web/);
  assert.match(await scrape(), /^cert_expiry_seconds\{resource_name="default"\} \d$/m);
});

test('an Envoy whose connection reaches its maximum age reconnects by resuming its TLS session', async (t) => {
  const { env, address } = await securedControlPlane(t, { flags: ['--keepaliveMaxServerConnectionAge', '1s'] });
  const agent = await startAgent(t, { name: 'web', discoveryAddress: address, env });
  await eventually(
    async () => {
      const stats = await agent.admin('/stats?filter=xds-grpc.ssl.(session_reused|handshake|fail)');
      assert.match(stats, /session_reused: [1-9]/);
    },
    { timeoutMs: 20 * SECOND },
  );
  await eventually(async () => assert.match(await agent.admin('/stats?filter=connected_state'), /connected_state: 1/));
});

test('a control plane with another name in its certificate is refused', async (t) => {
  const { env, address } = await securedControlPlane(t, { name: 'other.example' });
  const agent = await startAgent(t, { name: 'web', discoveryAddress: address, env, waitReady: false });
  await eventually(
    async () => {
      const stats = await agent.admin('/stats?filter=xds-grpc.ssl.fail_verify_san');
      assert.match(stats, /fail_verify_san: [1-9]/);
    },
    { timeoutMs: 20 * SECOND },
  );
  assert.equal(await agent.readiness(), 503);
});

test('an unreachable authority delays an agent, but does not end it', async (t) => {
  const { ca, env, address } = await securedControlPlane(t);
  ca.failure = { code: 14, details: 'not now' };
  const agent = await startAgent(t, { name: 'web', discoveryAddress: address, env, waitReady: false });
  await eventually(() => assert.ok(ca.calls.length >= 2));
  assert.equal(await agent.readiness(), 503);
  ca.failure = undefined;
  await agent.waitReady();
});
