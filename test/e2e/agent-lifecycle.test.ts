/** `ctl-agent proxy` with a real Envoy and a real control plane: how it starts, what it serves, and how it ends. */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { stringify } from 'yaml';
import {
  type Agent,
  type AgentOptions,
  type Discovery,
  discoveryPorts,
  type Echo,
  eventually,
  type Owner,
  startAgent,
  startDiscovery,
  startEcho,
  tempDir,
  validateBootstrap,
} from '../harness/index.ts';
import { endpoints, pod, service } from './support/config.ts';
import { foreignRoot } from './support/foreign-certificate.ts';
import { type MeshProxy, planMesh, sidecar, startMesh, type TestMesh } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call } from './support/traffic.ts';

const HTTP_PORT = 7481;
const owner = suiteOwner();
const address = planMesh();

interface Shared {
  readonly mesh: TestMesh;
  readonly echo: Echo;
  readonly client: MeshProxy;
}
const shared = lazy<Shared>();

/** Addresses of the agents: each test that ends an agent has its own. */
const SERVERS: readonly string[] = ['one', 'two', 'three'];
const serverAddress = (name: string): string => address(20 + SERVERS.indexOf(name));

const webWorkloads = (names: readonly string[]) => [
  ...names.map((name) => pod(name, { ip: serverAddress(name), labels: { app: name } })),
  endpoints('web', Object.fromEntries(names.map((name) => [name, serverAddress(name)])), [
    { name: 'http', port: HTTP_PORT },
  ]),
];

before(async () => {
  const echo = await startEcho(owner, { name: 'app' });
  const port = { number: HTTP_PORT, protocol: 'HTTP' };
  const to = `127.0.0.1:${echo.port}`;
  const mesh = await startMesh(owner, address, {
    files: {
      client: [sidecar('client', { address: address(10), egress: [port] })],
      servers: SERVERS.map((name) => sidecar(name, { address: serverAddress(name), ingress: [{ ...port, to }] })),
      web: [service('web', { clusterIP: '10.96.0.1', ports: [{ name: 'http', port: HTTP_PORT }] })],
      workloads: webWorkloads(['one', 'two']),
    },
  });
  const client = await mesh.startProxy({ name: 'client', address: address(10), mode: 'delta' });
  shared.set({ mesh, echo, client });
});

/** An agent of the mesh, as the server `name`. */
function agent(from: Owner, name: string, options: Partial<AgentOptions> = {}): Promise<Agent> {
  return startAgent(from, { name, address: serverAddress(name), ...plain(shared.get().mesh.discovery()), ...options });
}

function plain({ ports }: Pick<Discovery, 'ports'>, more: Readonly<Record<string, unknown>> = {}) {
  return {
    discoveryAddress: `127.0.0.1:${ports.grpc}`,
    proxyConfig: { controlPlaneAuthPolicy: 'NONE', ...more },
  };
}

/** The syntax of a value in a template. */
const named = (name: string): string => `$\{${name}}`;

test('it becomes ready with the first configuration, and stays ready without the control plane', async (t) => {
  const ports = await discoveryPorts();
  const configDir = await tempDir(t);
  const started = await startAgent(t, { name: 'early', ...plain({ ports }), waitReady: false });
  await eventually(async () => {
    const { status, body } = await started.http('readiness', '/healthz/ready');
    assert.deepEqual([status, body], [503, 'not ready: Envoy is PRE_INITIALIZING\n']);
  });
  const discovery = await startDiscovery(t, { configDir, ports });
  await started.waitReady();
  assert.match(await started.admin('/stats?filter=lds.update_success'), /update_success: [1-9]/);
  await discovery.kill();
  assert.equal(await started.readiness(), 200);
});

test('it uses Delta xDS, or State of the World when configured', async (t) => {
  const { mesh } = shared.get();
  for (const [delta, name] of [
    ['true', 'one'],
    ['false', 'two'],
  ] as const) {
    const started = await agent(t, name, { env: { MESH_DELTA_XDS: delta } });
    const { clients } = (await mesh.discovery().http('/debug/adsz')).json() as {
      clients: { proxy: string; protocol?: string }[];
    };
    assert.ok(clients.some(({ proxy }) => proxy.includes(`~${name}.default~`)));
    const bootstrap = await readFile(join(started.folder, 'envoy-rev0.json'), 'utf8');
    assert.equal(JSON.parse(bootstrap).dynamic_resources.ads_config.api_type, delta === 'true' ? 'DELTA_GRPC' : 'GRPC');
    await started.stop();
  }
});

test('an Envoy that was killed is restarted and serves again', async (t) => {
  const started = await agent(t, 'three');
  const first = await started.envoyPid();
  assert.ok(first !== undefined);
  process.kill(first, 'SIGKILL');
  await eventually(async () => {
    const now = await started.envoyPid();
    assert.ok(now !== undefined && now !== first);
  });
  await started.waitReady();
  const { status } = await call({ address: serverAddress('three'), port: HTTP_PORT, host: 'web' });
  assert.equal(status, 200);
  assert.match((await started.http('status', '/stats/prometheus')).body, /^envoy_starts_total 2$/m);
});

test('an agent ends the Envoy that a killed agent of its folder left, but not that of a running agent', async (t) => {
  const killed = await agent(t, 'three');
  const left = await killed.envoyPid();
  assert.ok(left !== undefined);
  await killed.kill();
  assert.equal(await killed.envoyPid(), left);
  const same = {
    ports: killed.ports,
    proxyConfig: plain(shared.get().mesh.discovery(), { configPath: killed.folder }).proxyConfig,
  };
  const next = await agent(t, 'three', same);
  assert.equal(await killed.envoyPid(), undefined);
  assert.match(next.output(), new RegExp(`terminating the Envoy of an agent that was killed\\tpid=${left}\\b`));
  // The ports are in use, so it ends. It must not end the Envoy of the other agent.
  const beside = await agent(t, 'three', { ...same, waitReady: false });
  assert.equal((await beside.exited).code, 1);
  assert.equal(await next.readiness(), 200);
});

test('an agent drains on a signal: no request fails, and it ends after the drain time', async (t) => {
  const { mesh } = shared.get();
  // Longer than the change of endpoints takes to arrive, also on a crowded machine.
  const one = await agent(t, 'one', { env: { TERMINATION_DRAIN_DURATION_SECONDS: '8' } });
  await agent(t, 'two');
  const target = { address: address(10), port: HTTP_PORT, host: 'web' };
  await eventually(async () => assert.equal((await call(target)).status, 200));
  const traffic = startTraffic([target, target, target, target]);
  await traffic.more(100);
  const signalled = performance.now();
  one.signal('SIGTERM');
  await eventually(async () => assert.equal(await one.readiness(), 503));
  // As an orchestrator ends a pod.
  await mesh.config.apply('workloads', ...webWorkloads(['two']));
  assert.deepEqual(await one.exited, { code: 0, signal: null });
  const seconds = (performance.now() - signalled) / 1000;
  await traffic.more(50);
  assert.deepEqual(await traffic.stop(), []);
  assert.ok(seconds >= 7.9, `ended after ${seconds} s`);
  assert.equal(await one.envoyPid(), undefined);
  await mesh.config.apply('workloads', ...webWorkloads(['one', 'two']));
});

test('while it drains, open connections continue and are asked to close', async (t) => {
  const started = await agent(t, 'one', { env: { TERMINATION_DRAIN_DURATION_SECONDS: '60' } });
  started.signal('SIGTERM');
  await eventually(async () => assert.equal(await started.readiness(), 503));
  await eventually(async () => {
    const reply = await fetch(`http://${serverAddress('one')}:${HTTP_PORT}/`);
    assert.deepEqual([reply.status, reply.headers.get('connection')], [200, 'close']);
  });
  // It would drain for a minute: a second signal ends it at once.
  started.signal('SIGINT');
  assert.deepEqual(await started.exited, { code: 0, signal: null });
  assert.equal(await started.envoyPid(), undefined);
});

test('an agent whose Envoy dies while it drains ends at once', async (t) => {
  const started = await agent(t, 'one', { env: { TERMINATION_DRAIN_DURATION_SECONDS: '600' } });
  const pid = await started.envoyPid();
  started.signal('SIGTERM');
  await eventually(async () => assert.equal(await started.readiness(), 503));
  process.kill(pid ?? 0, 'SIGKILL');
  assert.deepEqual(await started.exited, { code: 0, signal: null });
});

test('/quitquitquit ends it like a signal, by POST from this machine only', async (t) => {
  const started = await agent(t, 'one');
  assert.equal((await started.http('status', '/quitquitquit')).status, 405);
  assert.equal((await started.http('readiness', '/quitquitquit', 'POST')).status, 404);
  assert.equal(await started.readiness(), 200);
  assert.equal((await started.http('status', '/quitquitquit', 'POST')).status, 200);
  assert.deepEqual(await started.exited, { code: 0, signal: null });
});

test('SIGUSR1 opens no debugger in the agent and does not end it', async (t) => {
  const started = await agent(t, 'one');
  started.signal('SIGUSR1');
  assert.equal(await started.readiness(), 200);
  assert.equal((await started.http('status', '/quitquitquit', 'POST')).status, 200);
  assert.deepEqual(await started.exited, { code: 0, signal: null });
  assert.doesNotMatch(started.output(), /Debugger listening/);
});

test('/quitquitquit?now ends it without a drain; PROXY_CONFIG fields without effect are reported', async (t) => {
  const { proxyConfig, discoveryAddress } = plain(shared.get().mesh.discovery(), { concurency: 2 });
  // With a drain the test would not end in time.
  const env = { TERMINATION_DRAIN_DURATION_SECONDS: '900' };
  const started = await agent(t, 'one', { env, proxyConfig, discoveryAddress });
  assert.match(started.output(), /warn\tdefault\tPROXY_CONFIG: unknown fields are ignored: "concurency"/);
  assert.equal((await started.http('status', '/quitquitquit?now', 'POST')).status, 200);
  assert.deepEqual(await started.exited, { code: 0, signal: null });
});

test('an agent whose Envoy was told to quit ends, too', async (t) => {
  const started = await agent(t, 'one');
  await started.http('admin', '/quitquitquit', 'POST');
  assert.deepEqual(await started.exited, { code: 0, signal: null });
});

test('one scrape has the metrics of Envoy, application and agent; failures are counted', async (t) => {
  const server = createServer((request, response) => {
    response.end(request.url === '/own' ? 'app_requests_total 7\n# EOF' : undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const port = String((server.address() as AddressInfo).port);
  const started = await agent(t, 'one', {
    env: { MESH_METRICS_ANNOTATIONS: JSON.stringify({ scrape: 'true', port, path: '/own' }) },
  });
  const scrape = async () => (await started.http('status', '/stats/prometheus')).body;
  const merged = await scrape();
  assert.match(merged, /^envoy_server_live\S* 1$/m);
  assert.match(merged, /^app_requests_total 7$/m);
  assert.match(merged, /^mesh_build\{component="ctl-agent",version="[\d.]+",revision="\w+",tag="[^"]+"\} 1$/m);
  assert.match(merged, /^scrapes_total 1$/m);
  assert.doesNotMatch(merged, /EOF|^scrape_failures_total\{/m);
  server.close();
  server.closeAllConnections();
  const without = await scrape();
  assert.match(without, /^envoy_server_live/m);
  assert.match(without, /^scrape_failures_total\{type="application"\} 1$/m);
  assert.match((await started.http('prometheus', '/stats/prometheus')).body, /^envoy_server_live/m);
});

test("the agent makes the application's probes", async (t) => {
  const { echo } = shared.get();
  const started = await agent(t, 'one', {
    env: {
      MESH_ORCH_APP_PROBERS: JSON.stringify({
        '/app-health/web/readyz': { httpGet: { path: '/ok', port: echo.port } },
        '/app-health/web/livez': { tcpSocket: { port: echo.port } },
        '/app-health/db/livez': { tcpSocket: { port: 1 } },
      }),
    },
  });
  const status = async (path: string) => (await started.http('readiness', path)).status;
  assert.equal(await status('/app-health/web/readyz'), 200);
  assert.equal(await status('/app-health/web/livez'), 200);
  assert.equal(await status('/app-health/db/livez'), 500);
  assert.equal(await status('/app-health/other/livez'), 404);
});

test('Envoy accepts the golden bootstraps', async (t) => {
  const folder = join(import.meta.dirname, '../../src/agent/bootstrap/golden');
  const files = await readdir(folder);
  assert.ok(files.length >= 3);
  const { certificate, key } = await foreignRoot(t);
  // Envoy reads the files of a collector's TLS settings.
  const paths: Readonly<Record<string, string>> = { '/roots.pem': certificate, '/c.pem': certificate, '/k.pem': key };
  const existing = (name: string, value: unknown) =>
    name === 'filename' && typeof value === 'string' ? (paths[value] ?? value) : value;
  for (const file of files)
    await validateBootstrap(t, JSON.parse(await readFile(join(folder, file), 'utf8'), existing));
});

test('a template replaces the bootstrap, and an override is merged into it', async (t) => {
  const folder = await tempDir(t);
  const [template, override] = [join(folder, 'template.yaml'), join(folder, 'override.json')];
  await writeFile(
    template,
    stringify({
      node: named('node'),
      admin: named('admin'),
      dynamic_resources: named('dynamic_resources'),
      static_resources: { clusters: [named('xds_cluster')] },
    }),
  );
  const cluster = { name: 'extra', type: 'STATIC', load_assignment: { cluster_name: 'extra' } };
  await writeFile(override, JSON.stringify({ static_resources: { clusters: [cluster] } }));
  const started = await agent(t, 'one', { env: { MESH_BOOTSTRAP: template, MESH_BOOTSTRAP_OVERRIDE: override } });
  const clusters = await started.admin('/clusters');
  assert.match(clusters, /^xds-grpc::/m);
  assert.match(clusters, /^extra::/m);
});

test('invalid settings end it with one line and an exit code', async (t) => {
  const folder = await tempDir(t);
  const wrong = join(folder, 'wrong.json');
  await writeFile(wrong, '{"admin": {"addres": {}}}');
  const unknown = join(folder, 'unknown.json');
  await writeFile(unknown, JSON.stringify({ node: named('nodes') }));
  const rows: readonly (readonly [Readonly<Record<string, string>>, RegExp, (readonly string[])?])[] = [
    [{ ENVOY_PATH: '/nosuch/envoy' }, /^ctl-agent: cannot start Envoy at \/nosuch\/envoy: there is no such file$/m],
    [{ MESH_BOOTSTRAP_OVERRIDE: wrong }, /^ctl-agent: Envoy rejects its bootstrap: .*addres.*$/m],
    [{ MESH_BOOTSTRAP: unknown }, /^ctl-agent: .*unknown\.json: unknown name \$\{nodes\}; expected one of node, .*$/m],
    [{ PROXY_CONFIG: '{"concurrency": "two"}' }, /^ctl-agent: PROXY_CONFIG: concurrency: expected a whole number.*$/m],
    [{ MESH_ORCH_APP_PROBERS: '{"/x": {}}' }, /^ctl-agent: invalid value of variable MESH_ORCH_APP_PROBERS: .*$/m],
    [{}, /^ctl-agent: invalid value "loud" for flag --proxyLogLevel: .*$/m, ['--proxyLogLevel', 'loud']],
    [{}, /^ctl-agent: unexpected argument "more" of proxy$/m, ['more']],
    [{}, /^ctl-agent: --stsPort needs a token endpoint: set TOKEN_EXCHANGE_ENDPOINT, .*$/m, ['--stsPort', '15463']],
    [{ CLOUD_METADATA: 'shop' }, /^ctl-agent: invalid value "shop" of variable CLOUD_METADATA: not four parts: .*$/m],
  ];
  const { status } = await agent(t, 'two').then(({ ports }) => ports);
  const rowsOfPorts: typeof rows = [
    [
      {
        PROXY_CONFIG: JSON.stringify({
          ...plain(shared.get().mesh.discovery()),
          statusPort: status,
          configPath: folder,
        }),
      },
      new RegExp(`^ctl-agent: port ${status}: cannot listen on :${status} \\(EADDRINUSE\\)$`, 'm'),
    ],
  ];
  for (const [env, line, flags = []] of [...rows, ...rowsOfPorts]) {
    const started = await agent(t, 'one', { env, flags, waitReady: false });
    const { code } = await started.exited;
    assert.equal(code, 1, started.output());
    assert.match(started.output(), line);
    assert.equal(started.output().match(/^ctl-agent: /gm)?.length, 1);
  }
});
