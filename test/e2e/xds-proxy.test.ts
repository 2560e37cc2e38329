/**
 * The agent's xDS proxy between a real Envoy and a real control plane, with both variants of the protocol: what works
 * without it works with it, and while the control plane is gone.
 */
import assert from 'node:assert/strict';
import { Resolver } from 'node:dns/promises';
import { readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import {
  type Agent,
  eventually,
  freePorts,
  type Owner,
  startAgent,
  startDiscovery,
  startEcho,
  tempDir,
} from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { MODES, type Mode, planMesh, startMesh, startProxy, syncStatus, type TestMesh } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call } from './support/traffic.ts';

const BACKEND_PORT = 7490;
const PORT = 7491;
/** A port that another program uses. */
const TAKEN = 7492;

const owner = suiteOwner();
const address = planMesh();
const shared = lazy<TestMesh>();

/** Of an Envoy that no agent has started. */
const otherAddress = (mode: Mode): string => address(mode === 'delta' ? 12 : 13);
const gatewayAddress = (mode: Mode): string => address(mode === 'delta' ? 10 : 11);
const target = (mode: Mode) => ({ address: gatewayAddress(mode), port: PORT });

function gateway(name: string, port: number): Document[] {
  return MODES.map((mode) =>
    resource('Gateway', `${name}-${mode}`, {
      selector: { app: `gateway-${mode}` },
      servers: [
        { hosts: ['*'], port: { number: port, name: `http-${port}`, protocol: 'HTTP' }, bind: gatewayAddress(mode) },
      ],
    }),
  );
}

const others = (): Document[] =>
  MODES.map((mode) =>
    resource('Gateway', `other-${mode}`, {
      selector: { app: `other-${mode}` },
      servers: [{ hosts: ['*'], port: { number: PORT, name: 'http', protocol: 'HTTP' }, bind: otherAddress(mode) }],
    }),
  );

const routes = (mark: string): Document =>
  resource('VirtualService', 'all', {
    hosts: ['*'],
    gateways: MODES.flatMap((mode) => [`front-${mode}`, `other-${mode}`]),
    http: [{ headers: { request: { set: { 'x-mark': mark } } }, route: [{ destination: { host: 'a' } }] }],
  });

before(async () => {
  await startEcho(owner, { name: 'a', address: address(21), port: BACKEND_PORT });
  for (const mode of MODES) {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(TAKEN, gatewayAddress(mode), resolve));
    owner.after(() => void other.close());
  }
  const ports = [{ name: 'http', port: BACKEND_PORT }];
  const mesh = await startMesh(owner, address, {
    files: {
      services: [
        service('a', { ports }),
        endpoints('a', [address(21)], ports),
        service('named', { ports, clusterIP: '10.96.0.77' }),
      ],
      front: gateway('front', PORT),
      others: others(),
      routes: [routes('first')],
    },
  });
  shared.set(mesh);
});

interface Proxied {
  readonly agent: Agent;
  readonly socket: string;
  readonly saved: string;
}

/** An agent with a proxy and a file for the snapshot in `folder`. */
async function startProxied(
  from: Owner,
  mode: Mode,
  folder: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Proxied> {
  const [socket, saved] = [join(folder, 'XDS'), join(folder, 'snapshot')];
  const agent = await startAgent(from, {
    name: `gateway-${mode}`,
    role: 'router',
    address: gatewayAddress(mode),
    discoveryAddress: `127.0.0.1:${shared.get().discovery().ports.grpc}`,
    proxyConfig: { controlPlaneAuthPolicy: 'NONE', configPath: folder },
    env: { XDS_LOCAL: socket, XDS_SAVE: saved, MESH_DELTA_XDS: String(mode === 'delta'), ...env },
  });
  return { agent, socket, saved };
}

/** Waits until requests are answered with this mark. */
async function marked(mode: Mode, mark: string, at = target(mode)): Promise<void> {
  await eventually(
    async () => {
      const { by, reply } = await call(at);
      assert.deepEqual([by, reply?.headers['x-mark']], ['a', mark]);
    },
    { timeoutMs: 30_000 },
  );
}

async function statusOf(mode: Mode, name = `gateway-${mode}`): Promise<Readonly<Record<string, unknown>>> {
  const found = (await syncStatus(shared.get().discovery())).find(({ proxy }) => proxy === `${name}.default`);
  assert.ok(found !== undefined, 'the proxy is not connected');
  return found;
}

async function metric({ agent }: Proxied, name: string): Promise<number> {
  const { body } = await agent.http('status', '/stats/prometheus');
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(body)?.[1]);
}

const envoyPid = ({ agent }: Proxied): number =>
  Number([...agent.output().matchAll(/Envoy has started\t.*?\bpid=(\d+)/g)].at(-1)?.[1]);

/** Kills Envoy; the agent starts it again. */
async function killEnvoy(proxied: Proxied): Promise<void> {
  const pid = envoyPid(proxied);
  process.kill(pid, 'SIGKILL');
  await eventually(() => assert.notEqual(envoyPid(proxied), pid, 'Envoy is not restarted yet'));
}

for (const mode of MODES) {
  describe(mode, () => {
    test('Envoy speaks to the agent in plain text, and the control plane sees it as without a proxy', async (t) => {
      const { config } = shared.get();
      const folder = await tempDir(t);
      const proxied = await startProxied(t, mode, folder);
      await marked(mode, 'first');
      const bootstrap = JSON.parse(await readFile(join(folder, 'envoy-rev0.json'), 'utf8'));
      const cluster = bootstrap.static_resources.clusters.find(({ name }: { name: string }) => name === 'xds-grpc');
      assert.equal(cluster.transport_socket, undefined);
      assert.match(JSON.stringify(cluster.load_assignment), /"pipe":\{"path":"[^"]*XDS"/);
      assert.equal((await stat(proxied.socket)).mode & 0o777, 0o600);
      await eventually(async () => {
        const status = await statusOf(mode);
        assert.deepEqual([status.cluster_state, status.listener_state], ['SYNCED', 'SYNCED']);
      });

      // Rejections pass with their message.
      await config.apply('taken', ...gateway('front', TAKEN).slice(0, 0), ...gateway('taken', TAKEN));
      await eventually(async () => {
        const text = JSON.stringify(await statusOf(mode));
        assert.match(text, /Address already in use|cannot bind/);
      });
      assert.ok((await metric(proxied, 'xds_proxy_rejections_total')) > 0);
      assert.match(proxied.agent.output(), /the proxy rejects a response/);
      await config.remove('taken');
      await config.apply('routes', routes('second'));
      await marked(mode, 'second');
      await config.apply('routes', routes('first'));
      await marked(mode, 'first');
    });

    test('no request fails while the control plane comes and goes', async (t) => {
      const mesh = shared.get();
      const proxied = await startProxied(t, mode, await tempDir(t));
      await marked(mode, 'first');
      const traffic = startTraffic([target(mode)]);
      for (const mark of ['third', 'first']) {
        await mesh.discovery().kill();
        await eventually(async () => assert.equal(await metric(proxied, 'xds_upstream_connected'), 0));
        // A control plane that is back before the next attempt is not reported.
        await eventually(() => assert.match(proxied.agent.output(), /the control plane cannot be reached/));
        await mesh.config.apply('routes', routes(mark));
        await mesh.restart();
        await marked(mode, mark);
      }
      await traffic.more(20);
      assert.deepEqual(await traffic.stop(), []);
      assert.match(proxied.agent.output(), /the control plane is reachable again/);
      assert.equal(await envoyConnections(proxied), 1, 'the stream of Envoy has ended');
    });

    test('no request fails while an agent is killed and restarted beside an Envoy that stays', async (t) => {
      const { config } = shared.get();
      const folder = await tempDir(t);
      const [local = 0] = await freePorts(1);
      const proxied = await startProxied(t, mode, folder, { XDS_LOCAL: `:${local}` });
      const name = `other-${mode}`;
      const envoy = await startProxy(t, local, { name, type: 'router', address: otherAddress(mode), mode });
      const other = { address: otherAddress(mode), port: PORT };
      await marked(mode, 'first', other);
      const traffic = startTraffic([other]);
      for (const mark of ['fifth', 'first']) {
        await proxied.agent.kill();
        await traffic.more(20);
        await config.apply('routes', routes(mark));
        const again = await startProxied(t, mode, folder, { XDS_LOCAL: `:${local}` });
        await marked(mode, mark, other);
        await marked(mode, mark);
        await eventually(async () => assert.equal((await statusOf(mode, name)).listener_state, 'SYNCED'));
        if (mark === 'first') assert.ok((await metric(again, 'xds_proxy_connections')) >= 2);
        Object.assign(proxied, again);
      }
      await traffic.more(20);
      assert.deepEqual(await traffic.stop(), []);
      const { 'listener_manager.listener_removed': removed } = await envoy.stats('^listener_manager.listener_removed$');
      assert.equal(removed, 0);
    });

    test('without the proxy, the stream of the agent and that of Envoy do not disturb each other', async (t) => {
      const { config } = shared.get();
      const [dns = 0] = await freePorts(1);
      const env = { XDS_LOCAL: '', XDS_SAVE: '', DNS_AGENT: 'true', DNS_ADDR: `:${dns}` };
      const proxied = await startProxied(t, mode, await tempDir(t), env);
      const resolver = new Resolver();
      resolver.setServers([`127.0.0.1:${dns}`]);
      const answers = (host: string) => eventually(async () => assert.ok((await resolver.resolve4(host)).length > 0));
      await answers('named.default.svc.cluster.local');
      for (const mark of ['sixth', 'first']) {
        await config.apply('routes', routes(mark));
        await marked(mode, mark);
        // The control plane shows both streams.
        await eventually(async () => {
          const all = await syncStatus(shared.get().discovery());
          const states = all
            .filter(({ proxy }) => proxy === `gateway-${mode}.default`)
            .map((each) => each.listener_state);
          assert.deepEqual(states.sort(), ['NOT SENT', 'SYNCED']);
        });
        await answers('named.default.svc.cluster.local');
      }
      assert.equal(await metric(proxied, 'xds_upstream_connected'), 1);
      assert.equal(await metric(proxied, 'xds_upstream_failures_total'), 0);
      assert.equal(await envoyConnections(proxied), 1, 'the stream of Envoy has ended');
    });

    test('an Envoy that restarts without a control plane is served from the snapshot, and refreshed later', async (t) => {
      const mesh = shared.get();
      const folder = await tempDir(t);
      const proxied = await startProxied(t, mode, folder);
      await marked(mode, 'first');
      await eventually(() => stat(proxied.saved));
      await mesh.discovery().kill();
      await killEnvoy(proxied);
      await marked(mode, 'first');
      await proxied.agent.waitReady();
      assert.match(proxied.agent.output(), /the proxy is served from the snapshot.*ageSeconds=/);
      assert.ok((await metric(proxied, 'xds_proxy_snapshot_responses_total')) > 0);

      // The agent restarts as well: it finds the saved snapshot.
      await proxied.agent.kill();
      const again = await startProxied(t, mode, folder);
      assert.match(again.agent.output(), /a snapshot was read/);
      await marked(mode, 'first');
      assert.ok((await metric(again, 'xds_proxy_snapshot_age_seconds')) >= 0);

      await mesh.config.apply('routes', routes('fourth'));
      await mesh.restart();
      await marked(mode, 'fourth');
      assert.match(again.agent.output(), /the proxy is served by the control plane again/);
      await mesh.config.apply('routes', routes('first'));
      await marked(mode, 'first');
    });
  });
}

test('configuration that several Envoys have is compressed on its way to their agents', async (t) => {
  const { config, discovery } = shared.get();
  await config.apply(
    'large',
    resource('ServiceEntry', 'large', {
      hosts: ['large.example.com'],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'STATIC',
      endpoints: Array.from({ length: 2000 }, (_, index) => ({ address: `10.9.${index >> 8}.${index & 255}` })),
    }),
    resource('VirtualService', 'large', {
      hosts: ['large.example.com'],
      gateways: ['front-delta'],
      http: [{ route: [{ destination: { host: 'a' } }] }],
    }),
  );
  const compressed = async (form: string): Promise<number> =>
    (await discovery().metric(`ctl_xds_compression_${form}_bytes_total`)) ?? 0;
  const [before, outputBefore] = [await compressed('input'), await compressed('output')];
  const proxied = await startProxied(t, 'delta', await tempDir(t));
  const other = { ...target('delta'), host: 'large.example.com' };
  await eventually(async () => assert.equal((await call(other)).by, 'a'));
  // An Envoy that starts again is another one that has the same.
  for (let starts = 0; starts < 5 && (await compressed('input')) === before; starts++) {
    await killEnvoy(proxied);
    await eventually(async () => assert.equal((await call(other)).by, 'a'));
  }
  const [input, output] = [(await compressed('input')) - before, (await compressed('output')) - outputBefore];
  assert.ok(input > 16_384 && output > 0 && output < input / 2, `${output} of ${input} bytes`);
  assert.equal(await metric(proxied, 'xds_proxy_rejections_total'), 0);
  await config.remove('large');
});

test('on a machine with IPv6 only, a port alone is one of the IPv6 loopback address', async (t) => {
  const [grpc = 0, local = 0] = await freePorts(2);
  const discovery = await startDiscovery(t, {
    configDir: await tempDir(t),
    flags: ['--grpcAddr', `[::1]:${grpc}`],
  });
  const agent = await startAgent(t, {
    name: 'six',
    address: 'fd00::6',
    discoveryAddress: `[::1]:${grpc}`,
    proxyConfig: { controlPlaneAuthPolicy: 'NONE' },
    env: { XDS_LOCAL: `:${local}` },
  });
  await eventually(async () => {
    const states = (await syncStatus(discovery)).map(({ proxy, cluster_state: state }) => [proxy, state]);
    assert.deepEqual(states, [['six.default', 'SYNCED']]);
  });
  assert.match(await agent.admin('/clusters'), new RegExp(`xds-grpc::\\[::1\\]:${local}::cx_active::1`));
});

test('settings that cannot work end the agent with one line', async (t) => {
  const cases: readonly (readonly [Readonly<Record<string, string>>, RegExp])[] = [
    [{ XDS_LOCAL: 'nowhere' }, /XDS_LOCAL: "nowhere" is neither a path nor an address/],
    [{ XDS_SAVE: 'file' }, /XDS_SAVE: a snapshot needs the xDS proxy/],
    [{ XDS_UPSTREAM: 'a:15010,b:15010' }, /XDS_UPSTREAM: several addresses need the xDS proxy/],
    [{ XDS_LOCAL: '/proc/XDS' }, /\/proc\/XDS: XDS_LOCAL: the socket cannot be created/],
  ];
  for (const [env, message] of cases) {
    const agent = await startAgent(t, {
      name: 'bad',
      discoveryAddress: '127.0.0.1:15010',
      env,
      waitReady: false,
    });
    const { code } = await agent.exited;
    assert.equal(code, 1, agent.output());
    const envoy = /Envoy has started\t.*?\bpid=(\d+)/.exec(agent.output())?.[1];
    if (envoy !== undefined) assert.throws(() => process.kill(Number(envoy), 0), /ESRCH/);
    assert.match(agent.output(), message);
    assert.doesNotMatch(agent.output(), /^\s+at /m);
  }
});

/** Connections of Envoy to the proxy, without attempts before the proxy listened. */
async function envoyConnections({ agent }: Proxied): Promise<number> {
  const text = await agent.admin('/stats?filter=^cluster.xds-grpc.upstream_cx_');
  const stat = (name: string) => Number(new RegExp(`upstream_cx_${name}: (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
  return stat('total') - stat('connect_fail');
}
