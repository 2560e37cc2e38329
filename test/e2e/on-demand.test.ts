/**
 * Sidecars that ask for the virtual hosts that they use, with real Envoys: they get these with their clusters, requests
 * have the same outcomes as with everything, and edits, restarts and removals reach what was asked for.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { promisify } from 'node:util';
import { programFile, eventually as retry, tempDir } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { type MeshProxy, sidecar, syncStatus } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh } from './support/versions.ts';

/** Services beside `web`. */
const OTHERS = 30;
const HTTP = [{ name: 'http', port: HTTP_PORT }];
const SUFFIX = 'default.svc.cluster.local';

interface Suite {
  readonly mesh: VersionsMesh;
  /** Has everything. */
  readonly whole: MeshProxy;
  readonly client: MeshProxy;
}

const owner = suiteOwner();
const shared = lazy<Suite>();

function otherService(name: string, last: number, at: string): Document[] {
  return [service(name, { clusterIP: `10.98.0.${last}`, ports: HTTP }), endpoints(name, [at], HTTP)];
}

function virtualService(name: string, hosts: readonly string[], http: readonly Document[]): Document {
  return resource('VirtualService', name, { hosts, http });
}

function serviceEntry(host: string, address: string): Document {
  const ports = [{ number: HTTP_PORT, name: 'http', protocol: 'HTTP' }];
  return resource('ServiceEntry', host.replaceAll('*', 'any'), {
    hosts: [host],
    ports,
    resolution: 'STATIC',
    endpoints: [{ address }],
  });
}

before(async () => {
  const mesh = await startVersionsMesh(owner, { env: { CTL_DEBOUNCE_AFTER: '10ms' } });
  const others = Array.from({ length: OTHERS }, (_, at) => otherService(`other-${at}`, at + 1, mesh.v1.address));
  await mesh.config.apply('others', ...others.flat());
  await mesh.config.apply(
    'routes',
    ...otherService('split', 101, mesh.v1.address),
    ...otherService('moved', 102, mesh.v1.address),
    ...otherService('narrow', 103, mesh.v1.address),
    ...otherService('ready', 104, mesh.v1.address),
    virtualService('narrow', ['narrow'], [{ match: [{ uri: { prefix: '/here' } }], route: [to('v2')] }]),
    virtualService(
      'split',
      ['split'],
      [
        { match: [{ uri: { prefix: '/mirrored' } }], route: [to('v1')], mirror: to('v2').destination },
        {
          route: [
            { ...to('v1'), weight: 50 },
            { ...to('v2'), weight: 50 },
          ],
        },
      ],
    ),
    virtualService('moved', ['moved'], [{ redirect: { authority: 'other-1' } }]),
    serviceEntry('*.stars.example', mesh.v2.address),
    serviceEntry('one.stars.example', mesh.v1.address),
  );
  const address = mesh.address(40);
  const egress = [{ number: HTTP_PORT, protocol: 'HTTP' }];
  await mesh.config.apply('client', sidecar('client-demand', { address, egress }));
  const whole = mesh.clients.find(({ mode }) => mode === 'delta');
  assert.ok(whole);
  await retry(async () => assert.equal((await send(whole, `other-${OTHERS - 1}`)).status, 200));
  const client = await mesh.startProxy({
    name: 'client-demand',
    mode: 'delta',
    address,
    metadata: { SIDECAR_CONFIGURATION: 'on-demand' },
  });
  shared.set({ mesh, whole, client });
});

function send(proxy: MeshProxy, host: string, path = '/', more: { readonly body?: Uint8Array } = {}) {
  const method = more.body === undefined ? 'GET' : 'POST';
  return call({ address: proxy.address, port: HTTP_PORT, host, path, method, ...more });
}

/** Names of the outbound clusters of an Envoy. */
async function clustersOf(proxy: MeshProxy): Promise<readonly string[]> {
  const lines = (await proxy.admin('/clusters')).split('\n');
  return lines.flatMap((line) => /^(outbound\|[^:]*)::added_via_api/.exec(line)?.[1] ?? []).sort();
}

/** Why a proxy holds a cluster. */
async function whyHeld(mesh: VersionsMesh, { workload }: MeshProxy, cluster: string): Promise<readonly string[]> {
  const path = `/debug/why?proxyID=${workload}&resource=${encodeURIComponent(cluster)}`;
  const [found] = (await mesh.discovery().http(path)).json() as {
    readonly units: readonly { readonly type: string; readonly onDemand: { readonly because: readonly string[] } }[];
  }[];
  return found?.units.find(({ type }) => type === 'cds')?.onDemand.because ?? [];
}

const clusterOf = (service: string, subset = '') => `outbound|${HTTP_PORT}|${subset}|${service}.${SUFFIX}`;

test('a sidecar has no cluster that it did not ask for, and gets one with the first request', async () => {
  const { client, whole } = shared.get();
  assert.deepEqual(await clustersOf(client), []);
  assert.equal((await send(client, 'other-3')).status, 200);
  assert.deepEqual(await clustersOf(client), [clusterOf('other-3')]);
  // Another name of the same host, which Envoy asks for separately.
  assert.equal((await send(client, `other-3.${SUFFIX}:${HTTP_PORT}`)).status, 200);
  assert.deepEqual(await clustersOf(client), [clusterOf('other-3')]);
  assert.ok((await clustersOf(whole)).length > OTHERS);
});

test('a host is found by the name of its virtual host', async () => {
  const { client } = shared.get();
  assert.equal((await send(client, `other-9.${SUFFIX}:${HTTP_PORT}`)).status, 200);
  assert.ok((await clustersOf(client)).includes(clusterOf('other-9')));
});

test('first requests at once to many services succeed', async () => {
  const { client } = shared.get();
  const hosts = Array.from({ length: OTHERS - 10 }, (_, at) => `other-${at + 10}`);
  const outcomes = await Promise.all([...hosts, ...hosts, ...hosts].map((host) => send(client, host)));
  assert.deepEqual([...new Set(outcomes.map(({ status }) => status))], [200]);
});

test('the same requests have the same outcomes as with everything', async () => {
  const { client, whole } = shared.get();
  const requests = [
    ['other-4'],
    ['nowhere.example'],
    ['nowhere.example', '/again'],
    [`nowhere.example:${HTTP_PORT}`],
    ['other-5.default:1234'],
    ['OTHER-6.Default'],
    ['a.stars.example'],
    ['one.stars.example'],
    ['b.stars.example', '/x'],
    ['moved', '/y'],
    ['split', '/mirrored'],
    ['10.98.0.8'],
  ] as const;
  for (const [host, path] of requests) {
    const [found, expected] = [await send(client, host, path), await send(whole, host, path)];
    const shown = ({ status, by, location }: typeof found) => ({ status, by, location });
    assert.deepEqual(shown(found), shown(expected), `${host}${path ?? ''}`);
  }
  const backends = new Set<unknown>();
  for (let count = 0; count < 40; count++) backends.add((await send(client, 'split')).by);
  assert.deepEqual([...backends].sort(), ['web-v1', 'web-v2']);
});

test('requests that no route matches, and odd hosts, are answered as with everything', async () => {
  const { client, whole } = shared.get();
  for (const [host, path] of [
    ['narrow', '/other'],
    ['narrow', '/other'],
    ['narrow', '/here'],
    ['ready'],
    ['later-1'],
  ] as const) {
    const [found, expected] = [await send(client, host, path), await send(whole, host, path)];
    assert.deepEqual([found.status, found.by], [expected.status, expected.by], `${host}${path ?? ''}`);
  }
});

test('a mirrored request reaches the cluster that nobody asked for', async () => {
  const { client } = shared.get();
  await send(client, 'split', '/mirrored');
  const stats = await client.stats(`cluster.outbound_${HTTP_PORT}_v2_web|outbound.*v2.*upstream_rq_total`);
  assert.ok((await clustersOf(client)).includes(clusterOf('web', 'v2')));
  assert.ok(Object.values(stats).some((count) => count > 0));
});

test('the body of a first request arrives whole', async () => {
  const { client } = shared.get();
  const outcome = await send(client, 'other-7', '/', { body: new Uint8Array(3_000_000) });
  assert.deepEqual([outcome.status, outcome.reply?.bytes], [200, 3_000_000]);
});

test('a host that is created after it was asked for is served', async () => {
  const { client, mesh } = shared.get();
  assert.equal((await send(client, 'late')).by, undefined);
  await mesh.config.apply('late', ...otherService('late', 100, mesh.v2.address));
  await retry(async () => assert.equal((await send(client, 'late')).by, 'web-v2'));
  await mesh.config.remove('late');
  await retry(async () => assert.equal((await send(client, 'late')).by, undefined));
  await mesh.config.apply('late', ...otherService('late', 100, mesh.v1.address));
  await retry(async () => assert.equal((await send(client, 'late')).by, 'web-v1'));
});

test('edits of hosts that are in use take effect without a failed request', async () => {
  const { client, mesh } = shared.get();
  await send(client, 'other-8');
  const traffic = startTraffic([{ address: client.address, port: HTTP_PORT, host: 'other-8' }]);
  await mesh.config.apply('edited', virtualService('edited', ['other-8'], [{ route: [to('v2')] }]));
  await retry(async () => assert.equal((await send(client, 'other-8')).by, 'web-v2'));
  await mesh.config.remove('edited');
  await retry(async () => assert.equal((await send(client, 'other-8')).by, 'web-v1'));
  assert.deepEqual(await traffic.stop(), []);
});

const LEARNING = 'learning';
const startLearning = (mesh: VersionsMesh) =>
  mesh.startProxy({ name: 'client-learning', namespace: LEARNING, mode: 'delta', address: mesh.address(41) });

test('the next proxy of a workload has what the one before it has asked for', async () => {
  const { mesh } = shared.get();
  const namespace = LEARNING;
  const address = mesh.address(41);
  const egress = { number: HTTP_PORT, protocol: 'HTTP' };
  const labels = { 'sidecar.mesh.io/configuration': 'learned' };
  await mesh.config.apply(
    namespace,
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } },
    sidecar('client-learning', {
      namespace,
      address,
      egress: [{ ...egress, hosts: ['default/*', `*/other-4.${SUFFIX}`] }],
    }),
  );
  const start = () => startLearning(mesh);
  const first = await start();
  await retry(async () => assert.equal((await send(first, 'other-1.default')).status, 200));
  assert.equal((await send(first, 'other-2.default')).status, 200);
  // Its Sidecar names this host.
  assert.deepEqual(
    await clustersOf(first),
    ['other-1', 'other-2', 'other-4'].map((name) => clusterOf(name)),
  );
  await first.stop();
  const second = await start();
  await retry(async () => assert.equal((await clustersOf(second)).length, 3));
  assert.equal((await send(second, 'other-2.default')).status, 200);
  // Both listen at the address. Whichever asks for a host, the other one gets it, too.
  const third = await start();
  await retry(async () => assert.equal((await clustersOf(third)).length, 3));
  assert.equal((await send(second, 'other-7.default')).status, 200);
  for (const each of [second, third])
    await retry(async () => assert.ok((await clustersOf(each)).includes(clusterOf('other-7'))));
  await second.stop();
  await third.stop();
});

test('pages and commands say what a sidecar on demand holds, and why', async (t) => {
  const { client, mesh, whole } = shared.get();
  await send(client, 'other-3');
  await send(client, 'nowhere.example');
  const httpAddr = `127.0.0.1:${mesh.discovery().ports.http}`;
  const run = async (command: string, ...args: readonly string[]): Promise<string> => {
    const all = [programFile('ctl-discovery'), command, '--httpAddr', httpAddr, ...args];
    return (await promisify(execFile)(process.execPath, all)).stdout;
  };
  const status = await run('proxy-status');
  assert.match(status, new RegExp(`^${client.workload} .* on-demand: \\d+ hosts `, 'm'));
  assert.match(status, new RegExp(`^${whole.workload} .* all `, 'm'));
  const metrics = await (await fetch(`http://127.0.0.1:${mesh.discovery().ports.monitoring}/metrics`)).text();
  const metric = (name: string): number =>
    Number(new RegExp(`^ctl_xds_on_demand_${name} (\\d+)`, 'm').exec(metrics)?.[1] ?? Number.NaN);
  assert.equal(metric('proxies{configuration="all"}'), 2);
  assert.equal(metric('proxies{configuration="on-demand"}'), 1);
  assert.ok(metric('hosts') > 20 && metric('unknown_names_total') > 0);
  assert.ok(metric('learned_hosts_total') > 0 && metric('learned_misses_total') > 0);
  assert.ok(metric('answer_seconds_count') >= metric('hosts'));
  const asked = await run('why', client.workload, `other-3:${HTTP_PORT}/`);
  assert.equal(asked.match(/^ +on demand: asked for by host other-3 at \d{4}-\S+Z$/gm)?.length, 1);
  assert.equal(asked.match(/asked for by host other-3 at \S+, for \d+\/other-3\.default/g)?.length, 1);
  const unasked = await run('why', client.workload, `other-${OTHERS - 1}.default:1/`);
  assert.doesNotMatch(unasked, /asked for by/);
  // Envoy has exactly what it should have: what nobody has asked for is not missing.
  const file = join(await tempDir(t), 'dump.json');
  await retry(async () => {
    await writeFile(file, JSON.stringify(await client.configDump()));
    assert.match(await run('proxy-status', client.workload, '--file', file), /^No differences\.$/m);
  });
  const clusters = async (...args: readonly string[]): Promise<readonly string[]> => {
    const printed = await run('proxy-config', 'clusters', client.workload, '-o', 'json', ...args);
    return (JSON.parse(printed) as { name: string }[])
      .map(({ name }) => name)
      .filter((name) => name.includes('other-'));
  };
  const held = (await clustersOf(client)).filter((name) => name.includes('other-'));
  assert.deepEqual((await clusters()).toSorted(), held);
  const askable = await clusters('--askable');
  assert.equal(askable.length, OTHERS - held.length);
  assert.ok(!askable.some((name) => held.includes(name)));
});

test('a control plane that restarts learns what the sidecar has, and requests do not fail', async () => {
  const { client, mesh } = shared.get();
  const had = await clustersOf(client);
  const traffic = startTraffic([{ address: client.address, port: HTTP_PORT, host: 'other-3' }]);
  await mesh.discovery().stop();
  await mesh.restart();
  await retry(async () => {
    const line = (await syncStatus(mesh.discovery())).find(({ proxy }) => String(proxy).startsWith('client-demand'));
    assert.equal(line?.cluster_state, 'SYNCED');
    assert.equal(line?.virtual_host_state, 'SYNCED');
  });
  assert.equal((await send(client, 'other-9')).status, 200);
  assert.deepEqual(await traffic.stop(), []);
  const has = await clustersOf(client);
  assert.deepEqual(
    had.filter((name) => !has.includes(name)),
    [],
  );
  assert.ok(has.includes(clusterOf('other-9')));
  const why = await whyHeld(mesh, client, clusterOf('other-3'));
  assert.ok(why.includes('had before it reconnected'), why.join());
  // What the workload has learned outlives the control plane.
  const next = await startLearning(mesh);
  const learned = ['other-1', 'other-2', 'other-4', 'other-7'].map((name) => clusterOf(name));
  await retry(async () => assert.deepEqual(await clustersOf(next), learned));
  await next.stop();
});
