/**
 * 1,000 services with 5 endpoints each and 300 simulated proxies (not Envoys) of 10 namespaces, half SotW and half
 * Delta: only the proxies that a change concerns receive messages, and only about the change.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type ConfigDir, configDir, type Document } from '../e2e/support/config.ts';
import { lazy, suiteOwner } from '../e2e/support/suite.ts';
import { type Discovery, eventually, startDiscovery, tempDir } from '../harness/index.ts';
import type { SimProxy } from '../harness/sim-proxy.ts';
import {
  ENDPOINTS,
  endpointsFile,
  HIDDEN,
  hiddenEndpoints,
  hostname,
  makeProxies,
  NAMESPACES,
  PRIVATE,
  PROXIES,
  type ScaleProxy,
  SERVICES,
  sees,
  serviceEndpoints,
  writeMesh,
} from './mesh.ts';

interface Scale {
  readonly config: ConfigDir;
  discovery: Discovery;
  readonly proxies: readonly ScaleProxy[];
}

const owner = suiteOwner();
const shared = lazy<Scale>();
const scale = (): Scale => shared.get();

/** Far more than needed: two cores may be busy with other tests. */
const PATIENCE = { timeoutMs: 60_000, intervalMs: 100 };

/** No log line for each of 300 streams. */
const QUIET = ['--log_output_level', 'default:info,ads:warn'];

before(async () => {
  const config = configDir(await tempDir(owner));
  await writeMesh(config);
  const discovery = await startDiscovery(owner, { configDir: config.path, flags: QUIET });
  const proxies = makeProxies(discovery.ports.grpc);
  owner.after(() => {
    for (const { proxy } of proxies) proxy.close();
  });
  for (const { proxy } of proxies) proxy.connect();
  shared.set({ config, discovery, proxies });
});

const clusterOf = (namespace: number, index: number) => `outbound|80||${hostname(namespace, index)}`;

/** Waits until every proxy has acknowledged everything. */
async function waitSynced(): Promise<void> {
  await eventually(async () => {
    const status = (await scale().discovery.http('/debug/syncz')).json() as Record<string, string>[];
    assert.equal(status.length, NAMESPACES * PROXIES);
    for (const line of status) {
      for (const type of ['cluster', 'endpoint', 'listener', 'route'])
        assert.equal(line[`${type}_state`], 'SYNCED', line.proxy);
    }
  }, PATIENCE);
}

let revision = 0;

/**
 * Edits the first endpoint of a service and waits until the proxies that see it have the new address; resolves with all
 * responses.
 */
async function editEndpoint(namespace: number, index: number): Promise<void> {
  const { config, proxies } = scale();
  const cluster = clusterOf(namespace, index);
  const endpointsOf = (proxy: SimProxy) => proxy.content('eds').get(proxy.endpointsName(cluster));
  const before = proxies.map(({ proxy }) => endpointsOf(proxy));
  await config.apply(endpointsFile(namespace, index), serviceEndpoints(namespace, index, ++revision));
  await eventually(() => {
    for (const [each, { namespace: of, proxy }] of proxies.entries()) {
      if (sees(of, namespace)) assert.notEqual(endpointsOf(proxy), before[each], proxy.options.id);
    }
  }, PATIENCE);
  await waitSynced();
}

function clear(): void {
  for (const { received } of scale().proxies) received.length = 0;
}

/** Asserts that proxies that see the namespace got one response with this one resource, and the others nothing. */
function assertOneResource(namespace: number, index: number): void {
  for (const { namespace: of, proxy, received } of scale().proxies) {
    const names = [proxy.endpointsName(clusterOf(namespace, index))];
    const expected = sees(of, namespace) ? [{ type: 'eds', names, removed: [] }] : [];
    assert.deepEqual(received, expected, proxy.options.id);
  }
}

test('all proxies become synced, and each has what its namespace sees', { timeout: 600_000 }, async () => {
  const { proxies } = scale();
  await eventually(() => {
    for (const { proxy } of proxies) assert.ok(proxy.complete(), `${proxy.options.id} ${proxy.ended ?? 'waits'}`);
  }, PATIENCE);
  await waitSynced();
  const contents = new Map<string, unknown>();
  for (const { namespace, proxy } of proxies) {
    const visible = Array.from({ length: NAMESPACES }, (_, of) => of).filter((of) => sees(namespace, of));
    assert.equal(proxy.content('eds').size, visible.length * SERVICES, proxy.options.id);
    const types = ['cds', 'eds', 'lds', 'rds'] as const;
    const { mode } = proxy.options;
    // SotW and Delta proxies of a namespace have the same content, but identify it differently and use different names
    // for endpoints.
    const everyone = types.filter((type) => type !== 'eds').map((type) => [...proxy.content(type).keys()].sort());
    const alike = types.map((type) => [...proxy.content(type)].sort());
    for (const [key, content] of [
      [`${namespace}`, everyone],
      [`${namespace} ${mode}`, alike],
    ] as const) {
      if (!contents.has(key)) contents.set(key, content);
      assert.deepEqual(content, contents.get(key));
    }
  }
  const { body } = await scale().discovery.http('/debug/endpointz');
  const entries = JSON.parse(body) as { ep: unknown[] }[];
  assert.equal(
    entries.reduce((sum, { ep }) => sum + ep.length, 0),
    NAMESPACES * SERVICES * ENDPOINTS + 1,
  );
});

test('a changed endpoint reaches the proxies that see its service, as one resource, and no others', async () => {
  for (const namespace of [0, 5, PRIVATE]) {
    clear();
    await editEndpoint(namespace, 7);
    assertOneResource(namespace, 7);
  }
});

/** Metrics that would grow with work for proxies. */
async function work(): Promise<Readonly<Record<string, number>>> {
  const names = [
    'ctl_proxy_queue_time_count',
    'ctl_proxy_convergence_time_count',
    'ctl_stage_seconds_count{stage="generate"}',
    ...['cds', 'eds', 'lds', 'rds'].map((type) => `ctl_xds_pushes{type="${type}"}`),
  ];
  const text = await scale().discovery.metrics();
  const value = (name: string) =>
    Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.slice(name.length) ?? 0,
    );
  return Object.fromEntries(names.map((name) => [name, value(name)]));
}

test('an edit that no proxy sees sends, generates and queues nothing', async () => {
  clear();
  await editEndpoint(6, 1);
  const before = await work();
  const edits: readonly (readonly [string, readonly Document[]])[] = [
    [`${HIDDEN}-endpoints`, [hiddenEndpoints(2)]],
    [`${HIDDEN}-endpoints`, [hiddenEndpoints(3)]],
    // Rewritten without a change.
    [endpointsFile(0, 3), [serviceEndpoints(0, 3)]],
  ];
  clear();
  for (const [name, documents] of edits) {
    await scale().config.apply(name, ...documents);
    const address = JSON.stringify(documents).match(/10\.201\.0\.\d/)?.[0];
    if (address === undefined) continue;
    await eventually(async () =>
      assert.ok((await scale().discovery.http('/debug/endpointShardz')).body.includes(address)),
    );
  }
  // Only the edit after them has arrived.
  await editEndpoint(6, 1);
  assertOneResource(6, 1);
  const after = await work();
  assert.deepEqual(
    Object.fromEntries(Object.entries(after).map(([name, count]) => [name, count - (before[name] ?? 0)])),
    {
      ctl_proxy_queue_time_count: PROXIES * 6,
      ctl_proxy_convergence_time_count: PROXIES * 6,
      'ctl_stage_seconds_count{stage="generate"}': 0,
      'ctl_xds_pushes{type="cds"}': 0,
      'ctl_xds_pushes{type="eds"}': PROXIES * 6,
      'ctl_xds_pushes{type="lds"}': 0,
      'ctl_xds_pushes{type="rds"}': 0,
    },
  );
});

test('after a restart, proxies that reconnect with their configuration are sent nothing', {
  timeout: 600_000,
}, async () => {
  const { config, discovery, proxies } = scale();
  assert.deepEqual(await discovery.stop(), { code: 0, signal: null });
  for (const { proxy } of proxies) proxy.disconnect();
  clear();
  scale().discovery = await startDiscovery(owner, { configDir: config.path, ports: discovery.ports, flags: QUIET });
  for (const { proxy } of proxies) proxy.connect();
  await waitSynced();
  for (const { proxy, received } of proxies) assert.deepEqual(received, [], proxy.options.id);
  // They are connected.
  await editEndpoint(2, 42);
  assertOneResource(2, 42);
});
