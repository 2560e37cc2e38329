/**
 * A gRPC application beside a real agent, with the bootstrap that the agent writes: it reaches the control plane
 * through the agent's xDS proxy, beside the agent's Envoy.
 */
import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { startGrpcApplication, startPlainServer } from '../grpc/application.ts';
import { buildUnavailable } from '../grpc/build.ts';
import { type AgentOptions, eventually, startAgent, tempDir } from '../harness/index.ts';
import { endpoints, service } from './support/config.ts';
import { planMesh, startMesh, syncStatus, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const PORT = 7071;
const PORTS = [{ name: 'grpc', port: PORT }];
const TARGET = `xds:///echo:${PORT}`;

const owner = suiteOwner();
const mesh = lazy<TestMesh>();
const address = planMesh();
const languages = (await buildUnavailable()) === undefined ? (['go', 'node'] as const) : (['node'] as const);

before(async () => {
  for (const [index, name] of ['a', 'b'].entries())
    await startPlainServer(owner, `${address(index + 1)}:${PORT}`, name);
  const echo = [service('echo', { ports: PORTS }), endpoints('echo', [address(1), address(2)], PORTS)];
  mesh.set(await startMesh(owner, address, { files: { echo } }));
});

async function agentOptions(env: Readonly<Record<string, string>>): Promise<AgentOptions> {
  return {
    name: 'app',
    address: address(10),
    discoveryAddress: `127.0.0.1:${mesh.get().discovery().ports.grpc}`,
    proxyConfig: {
      controlPlaneAuthPolicy: 'NONE',
      configPath: await tempDir(owner),
      interceptionMode: 'NONE',
    },
    env,
  };
}

test('an application with the bootstrap of its agent calls services of the mesh, even after the agent restarts', async () => {
  const folder = await tempDir(owner);
  const bootstrap = join(folder, 'grpc', 'bootstrap.json');
  const options = await agentOptions({ XDS_LOCAL: join(folder, 'XDS'), GRPC_XDS_BOOTSTRAP: bootstrap });
  const agent = await startAgent(owner, options);
  assert.equal((await stat(bootstrap)).mode & 0o777, 0o644);
  const applications = await Promise.all(
    languages.map((language) => startGrpcApplication(owner, { language, bootstrap })),
  );
  const allAnswer = () =>
    eventually(
      async () => {
        for (const application of applications) {
          const { answers, errors, message } = await application.call(TARGET, { calls: 8 });
          assert.deepEqual([Object.keys(answers).sort(), errors], [['a', 'b'], {}], message);
        }
      },
      { timeoutMs: 60_000 },
    );
  await allAnswer();
  // Envoy and each application, all with the node of the agent.
  const proxies = (await syncStatus(mesh.get().discovery())).filter(({ proxy }) => proxy === 'app.default');
  assert.equal(proxies.length, 1 + languages.length);
  await agent.stop();
  await allAnswer();
  await startAgent(owner, options);
  await allAnswer();
});

test('an agent without Envoy serves applications, and is ready, scraped and ended as others are', async () => {
  const folder = await tempDir(owner);
  const bootstrap = join(folder, 'bootstrap.json');
  const env = { DISABLE_ENVOY: 'true', XDS_LOCAL: join(folder, 'XDS'), GRPC_XDS_BOOTSTRAP: bootstrap };
  const agent = await startAgent(owner, { ...(await agentOptions(env)), name: 'alone' });
  assert.equal(await agent.envoyPid(), undefined);
  await assert.rejects(agent.admin('/ready'), /ECONNREFUSED/);
  assert.equal((await stat(join(folder, 'XDS'))).mode & 0o777, 0o660);
  const applications = await Promise.all(
    languages.map((language) => startGrpcApplication(owner, { language, bootstrap })),
  );
  for (const application of applications)
    await eventually(
      async () => {
        const { answers, errors, message } = await application.call(TARGET, { calls: 8 });
        assert.deepEqual([Object.keys(answers).sort(), errors], [['a', 'b'], {}], message);
      },
      { timeoutMs: 60_000 },
    );
  const { status, body } = await agent.http('status', '/stats/prometheus');
  assert.deepEqual(
    [status, /^envoy_server_/m.test(body), /^scrape_failures_total [1-9]/m.test(body)],
    [200, false, false],
  );
  assert.match(body, new RegExp(`^xds_proxy_connections ${languages.length}$`, 'm'));
  assert.equal((await agent.http('status', '/quitquitquit', 'POST')).status, 200);
  assert.equal((await agent.exited).code, 0);
});

test('a gateway without Envoy is an error of one line', async () => {
  const options = { ...(await agentOptions({ DISABLE_ENVOY: 'true' })), role: 'router', waitReady: false } as const;
  const agent = await startAgent(owner, options);
  assert.equal((await agent.exited).code, 1);
  assert.match(agent.output(), /^ctl-agent: DISABLE_ENVOY: a gateway needs Envoy\n$/);
});

test('a bootstrap without the xDS proxy is an error of one line', async () => {
  const bootstrap = join(await tempDir(owner), 'bootstrap.json');
  const options = { ...(await agentOptions({ GRPC_XDS_BOOTSTRAP: bootstrap })), waitReady: false };
  const agent = await startAgent(owner, options);
  assert.equal((await agent.exited).code, 1);
  assert.match(agent.output(), /GRPC_XDS_BOOTSTRAP.*needs the xDS proxy \(XDS_LOCAL\)/);
  assert.equal(agent.output().trim().split('\n').length, 1, agent.output());
});
