/**
 * `ctl-agent proxy` with a control plane over TLS: Envoy gets the workload's certificate from the agent's socket, and
 * the certificate is rotated.
 */
import assert from 'node:assert/strict';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually, startAgent, tempDir } from '../harness/index.ts';
import { securedControlPlane } from './support/secured-control-plane.ts';

const SECOND = 1000;

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
    { timeoutMs: 30 * SECOND },
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
    { timeoutMs: 30 * SECOND },
  );
  assert.equal(await agent.readiness(), 503);
});

test('an unreachable authority delays an agent, but does not end it', async (t) => {
  const { ca, env, address } = await securedControlPlane(t);
  ca.failure = { code: 14, details: 'not now' };
  const agent = await startAgent(t, { name: 'web', discoveryAddress: address, env, waitReady: false });
  await eventually(() => assert.ok(ca.calls.length >= 2));
  await eventually(async () => {
    const { status, body } = await agent.http('readiness', '/healthz/ready');
    assert.equal(status, 503);
    assert.match(body, /^not ready: the workload has no certificate: .*not now.* \(Envoy is PRE_INITIALIZING\)\n$/);
  });
  ca.failure = undefined;
  await agent.waitReady();
});

test('an agent without a token says so where it is asked whether it is ready, until there is one', async (t) => {
  const { env, address } = await securedControlPlane(t);
  const file = join(await tempDir(t), 'token');
  const own = { ...env, CA_TOKEN_FILE: file };
  const agent = await startAgent(t, { name: 'web', discoveryAddress: address, env: own, waitReady: false });
  const reason = async () => (await agent.http('readiness', '/healthz/ready')).body;
  await eventually(async () => {
    assert.ok((await reason()).startsWith(`not ready: the workload has no certificate: there is no token in ${file}`));
  });
  await writeFile(file, '');
  await eventually(async () => assert.match(await reason(), /the token in \S+ is empty/), { timeoutMs: 60 * SECOND });
  await copyFile(env.CA_TOKEN_FILE ?? '', file);
  await agent.waitReady(60 * SECOND);
});
