/**
 * Services of a stand-in for Consul, of Kubernetes documents and of files in one mesh, with real agents and Envoys:
 * they call each other with mutual TLS and policy, and traffic does not notice that the registry fails.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { type StandInInstance, StandInRegistry } from '../../src/sources/consul/testing/stand-in-registry.ts';
import {
  CONTROL,
  type Command,
  type Counts,
  type ServerFault,
  serveStandIn,
} from '../../src/sources/consul/testing/stand-in-server.ts';
import {
  type Child,
  eventually,
  freePort,
  type Namespace,
  netnsUnavailable,
  startDiscovery,
  tempDir,
} from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import { type IdentityWorld, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { httpOutcome } from './support/peer-calls.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const STAND_IN = join(import.meta.dirname, '../../src/sources/consul/testing/stand-in-main.ts');
const TOKEN = '0f3a2c44-1111-2222-3333-444455556666';

interface Shared {
  readonly world: IdentityWorld;
  /** Instances of the service `web` of Consul. */
  readonly web: Workload;
  readonly web2: Workload;
  /** A Pod with a Service. */
  readonly kube: Workload;
  /** A workload of a ServiceEntry in a file. */
  readonly file: Workload;
}

const owner = suiteOwner();
const shared = lazy<Shared>();
let standIn: Child | undefined;

async function startStandIn(control: Namespace, index = 10): Promise<void> {
  standIn = await control.start('stand-in for Consul', [process.execPath, STAND_IN, '8500', String(index)]);
  await eventually(() => {
    standIn?.assertRunning();
    assert.match(standIn?.output() ?? '', /ready/);
  });
}

async function command(control: Namespace, wanted: Command): Promise<Counts> {
  const url = `http://127.0.0.1:8500${CONTROL}`;
  return JSON.parse(await control.run('curl', '-sS', '--fail', '-d', JSON.stringify(wanted), url)) as Counts;
}

const instanceOf = ({ name, netns }: { name: string; netns: Pick<Namespace, 'address'> }): StandInInstance => ({
  node: `machine-${name}`,
  nodeAddress: netns.address,
  id: name,
  service: 'web',
  address: netns.address,
  port: 8080,
  tags: ['app|web', `instance|${name}`],
  meta: { protocol: 'http', 'service-account': name },
  status: 'passing',
});

const fileDocuments = ({ address }: Namespace): readonly Document[] => [
  resource(
    'ServiceEntry',
    'file',
    {
      hosts: ['file.example.com'],
      ports: [{ number: 8080, name: 'http', protocol: 'HTTP' }],
      location: 'MESH_INTERNAL',
      resolution: 'STATIC',
      endpoints: [{ address, labels: { app: 'file' }, serviceAccount: 'file' }],
    },
    'files',
  ),
];

before(async () => {
  if (skip !== false) return;
  const tokenFile = join(await tempDir(owner), 'token');
  await writeFile(tokenFile, `${TOKEN}\n`);
  const servers = 'http://127.0.0.1:8499,http://127.0.0.1:8500';
  const world = await startIdentityWorld(owner, {
    flags: ['--registries', 'ExtRegistry,Orchestrator', '--extregistryServerURL', servers],
    env: { CTL_EXTREGISTRY_TOKEN_FILE: tokenFile, CTL_EXTREGISTRY_TIMEOUT: '1s', CTL_EXTREGISTRY_WAIT: '5s' },
    prepare: (_network, control) => startStandIn(control),
  });
  const registered = { namespace: 'default', proxied: true, documents: () => [] };
  const [web, web2, kube, file] = await Promise.all([
    world.addWorkload({ name: 'web', ...registered }),
    world.addWorkload({ name: 'web2', ...registered }),
    world.addWorkload({ name: 'kube', namespace: 'shop', proxied: true }),
    world.addWorkload({ name: 'file', namespace: 'files', proxied: true, documents: fileDocuments }),
  ]);
  await command(world.control, { do: 'register', instances: [instanceOf(web), instanceOf(web2)] });
  shared.set({ world, web, web2, kube, file });
});

/** The arguments of curl for a request to a host whose name the client has resolved to the workload's address. */
function request(host: string, to: Workload, port = 8080): string[] {
  const address = to.name === 'kube' ? to.serviceAddress : to.netns.address;
  return ['-m', '20', '--resolve', `${host}:${port}:${address}`, `http://${host}:${port}/`];
}

/** Outcome of a request to `web.service.consul`, by whichever instance; `200 mtls web2`. */
async function callWeb(from: Workload): Promise<string> {
  const { web, web2 } = shared.get();
  const args = request('web.service.consul', web);
  const outcome = await httpOutcome(from, web, args);
  if (outcome === '200 by web2.default')
    return (await httpOutcome(from, web2, args)).replace('200 by web.default', '200 mtls');
  return outcome;
}

describe('a stand-in for Consul beside Kubernetes documents and files', { skip }, () => {
  test('services of all three call each other with mutual TLS', async () => {
    const { web, kube, file } = shared.get();
    const calls: [from: Workload, to: Workload, args: string[]][] = [
      [web, kube, request('kube.shop.svc.cluster.local', kube, 80)],
      [web, file, request('file.example.com', file)],
      [kube, file, request('file.example.com', file)],
      [file, kube, request('kube.shop.svc.cluster.local', kube, 80)],
    ];
    await eventually(async () => {
      for (const [from, to, args] of calls)
        assert.equal(await httpOutcome(from, to, args), '200 mtls', `${from.id} ${to.id}`);
      for (const from of [kube, file]) assert.equal(await callWeb(from), '200 mtls', from.id);
    });
    const { tokens } = await command(shared.get().world.control, { do: 'count' });
    assert.deepEqual(tokens, [TOKEN]);
  });

  test('policies select instances by their tags, and callers by their identities', async () => {
    const { world, web, kube, file } = shared.get();
    const rules = [{ from: [{ source: { principals: ['cluster.local/ns/shop/sa/kube'] } }] }];
    const selector = { matchLabels: { app: 'web' } };
    await world.config.apply(
      'policy',
      resource('AuthorizationPolicy', 'web', { selector, rules }),
      resource('PeerAuthentication', 'web', { selector, mtls: { mode: 'STRICT' } }),
    );
    await eventually(async () => {
      assert.equal(await httpOutcome(file, web, request('web.service.consul', web)), '403');
      assert.equal(await callWeb(kube), '200 mtls');
    });
    await world.config.remove('policy');
    await eventually(async () => assert.equal(await callWeb(file), '200 mtls'));
  });

  test('a critical instance is not used, one with a warning is, and all critical means no answer', async () => {
    const { world, web, web2, kube } = shared.get();
    const set = (of: Workload, status: string) =>
      command(world.control, { do: 'status', node: `machine-${of.name}`, id: of.name, status });
    const names = async () => {
      const replies = Array.from({ length: 8 }, () =>
        kube.netns.run('curl', '-s', ...request('web.service.consul', web)),
      );
      return new Set((await Promise.all(replies)).map((body) => /"name":"([^"]+)"/.exec(body)?.[1] ?? body));
    };
    await set(web, 'critical');
    await set(web2, 'warning');
    await eventually(async () => assert.deepEqual(await names(), new Set(['web2.default'])));
    await set(web2, 'critical');
    await eventually(async () => assert.equal(await httpOutcome(kube, web, request('web.service.consul', web)), '503'));
    await set(web, 'passing');
    await set(web2, 'passing');
    await eventually(async () => assert.deepEqual(await names(), new Set(['web.default', 'web2.default'])));
  });

  test('traffic does not notice a registry that fails, lies, is killed, or starts again without its data', async () => {
    const { world, web, web2, kube } = shared.get();
    const { control } = world;
    const traffic = await kube.netns.start('traffic', [
      ...['curl', '-sS', '--rate', '50/s', '-m', '20', '-o', '/dev/null', '-w', '%{stderr}%{http_code}\\n'],
      ...['--resolve', `web.service.consul:8080:${web.netns.address}`, 'http://web.service.consul:8080/?[1-100000]'],
    ]);
    // The last line may be incomplete.
    const answers = () => traffic.output().split('\n').slice(0, -1);
    const more = async (count: number) => {
      const goal = answers().length + count;
      await eventually(() => assert.ok(answers().length >= goal, `${goal - answers().length} to go`));
    };
    const health = async () => {
      const { sources } = JSON.parse(await world.http('/debug/configz')) as {
        sources: { id: string; health: { ok: boolean } }[];
      };
      return sources.find(({ id }) => id === 'consul')?.health.ok;
    };
    const stale = async () =>
      Number(/ctl_source_stale_seconds\{source="consul"\} (\S+)/.exec(await world.metrics())?.[1]);
    const heals = () => eventually(async () => assert.equal(await health(), true), { timeoutMs: 40_000 });
    const faults: ServerFault[] = ['error 500', 'half', 'huge', 'redirect'];
    for (const fault of faults) {
      await command(control, { do: 'fail', fault });
      await eventually(async () => assert.equal(await health(), false, fault), { timeoutMs: 30_000 });
      await more(10);
    }
    assert.ok((await stale()) > 0);
    await command(control, { do: 'fail' });
    await heals();
    await command(control, { do: 'fail', fault: 'empty' });
    const held = /Consul no longer has 1 services, .* they stay in force for 15 minutes/;
    await eventually(() => assert.match(world.discoveryOutput(), held), { timeoutMs: 30_000 });
    await more(20);
    await command(control, { do: 'fail' });
    await command(control, { do: 'slow', ms: 300 });
    await more(20);
    await standIn?.kill();
    await eventually(async () => assert.equal(await health(), false), { timeoutMs: 30_000 });
    await more(20);
    // Without its data, its index starts again.
    await startStandIn(control, 1);
    await more(50);
    for (const each of [web, web2]) await command(control, { do: 'register', instances: [instanceOf(each)] });
    await heals();
    traffic.signal('SIGTERM');
    await traffic.exited;
    assert.deepEqual(
      answers().filter((line) => line !== '200'),
      [],
    );
    const set = (status: string) => command(control, { do: 'status', node: 'machine-web', id: 'web', status });
    await set('critical');
    await eventually(async () => {
      const seen = await kube.netns.run('curl', '-s', ...request('web.service.consul', web));
      assert.match(seen, /"name":"web2.default"/);
      assert.match(await world.http('/debug/configz'), /"unhealthyEndpoints"/);
    });
  });
});

test('without its registry ctl-discovery is not ready, names it, and is ready when it comes', async (t) => {
  const port = await freePort();
  const flags = ['--registries', 'ExtRegistry', '--extregistryServerURL', `http://127.0.0.1:${port}`];
  const discovery = await startDiscovery(t, { configDir: await tempDir(t), flags, waitReady: false });
  await eventually(async () => {
    const { status, body } = await discovery.http('/ready');
    assert.deepEqual([status, body], [503, 'not ready: configuration is being read, waiting for consul\n']);
  });
  await eventually(() => assert.match(discovery.output(), /cannot read Consul: .*ECONNREFUSED.*; waiting for it/));
  const registry = new StandInRegistry();
  registry.register({ ...instanceOf({ name: 'web', netns: { address: '10.0.0.1' } }) });
  const server = await serveStandIn(registry, port);
  t.after(() => server.stop());
  await discovery.waitReady();
  assert.match((await discovery.http('/debug/registryz')).body, /web\.service\.consul/);
});
