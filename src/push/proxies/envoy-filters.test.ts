/** Which proxies the patches of an EnvoyFilter reach, and what becomes of them while it changes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { metadataText, type ProxyNode } from '../../core/proxy.ts';
import { envoy } from '../../protobuf/index.ts';
import { resourceMessage } from '../bundles/index.ts';
import { type Connected, inline, Mesh, meshResource, service, sidecar } from '../testing/mesh.ts';

const SHOP = [service('shop', 'web')];
const WEB = 'outbound|80||web.shop.svc.cluster.local';
const { Cluster } = envoy.config.cluster.v3;

const merging = (name: string, match: object = {}) => ({
  applyTo: 'CLUSTER',
  match: { cluster: { name: WEB }, ...match },
  patch: { operation: 'MERGE', value: { alt_stat_name: name } },
});

function filter(namespace: string, configPatches: readonly object[], spec: object = {}, name = 'patches') {
  return meshResource('EnvoyFilter', namespace, name, { configPatches, ...spec });
}

/** The patched name of the cluster; '' where it is not patched. */
function statName({ session }: Connected): string {
  const resource = session
    .parts('cds')
    .map((part) => part.get(WEB))
    .find((each) => each !== undefined);
  assert.ok(resource !== undefined);
  return Cluster.decode(resourceMessage(resource)).altStatName;
}

async function connected(mesh: Mesh, nodes: readonly ProxyNode[]): Promise<readonly Connected[]> {
  const proxies = nodes.map((node) => mesh.connect(node));
  await mesh.settled();
  return proxies;
}

const NODES: readonly ProxyNode[] = [
  { ...sidecar('10.5.0.1', 'shop'), labels: { app: 'web' }, meshVersion: '1.7.4' },
  { ...sidecar('10.5.0.2', 'shop'), labels: { app: 'db' }, meshVersion: '1.8.0' },
  sidecar('10.5.0.3', 'other'),
];

async function statNames(...filters: readonly ReturnType<typeof filter>[]): Promise<string[]> {
  const mesh = new Mesh(inline, [...SHOP, ...filters]);
  const proxies = await connected(mesh, NODES);
  assert.deepEqual(mesh.failures, []);
  return proxies.map(statName);
}

describe('the patches of an EnvoyFilter', () => {
  it('are for the workloads of its namespace', async () => {
    assert.deepEqual(await statNames(filter('shop', [merging('x')])), ['x', 'x', '']);
  });

  it('are for the selected workloads of its namespace', async () => {
    const workloadSelector = { labels: { app: 'web' } };
    assert.deepEqual(await statNames(filter('shop', [merging('x')], { workloadSelector })), ['x', '', '']);
    assert.deepEqual(await statNames(filter('other', [merging('x')], { workloadSelector })), ['', '', '']);
  });

  it('are for all workloads from the root namespace, which comes first', async () => {
    const root = filter('mesh-system', [merging('root')]);
    assert.deepEqual(await statNames(root), ['root', 'root', 'root']);
    assert.deepEqual(await statNames(filter('shop', [merging('own')], { priority: -1 }), root), ['own', 'own', 'root']);
  });

  it('apply in the order of priority within a namespace', async () => {
    const first = filter('shop', [merging('first')], { priority: 1 }, 'b');
    assert.deepEqual(await statNames(first, filter('shop', [merging('second')], { priority: 2 }, 'a')), [
      'second',
      'second',
      '',
    ]);
  });

  it('are for proxies of the version that they match; a proxy without one never matches', async () => {
    const proxyVersion = String.raw`^1\.7`;
    assert.deepEqual(await statNames(filter('mesh-system', [merging('x', { proxy: { proxyVersion } })])), [
      'x',
      '',
      '',
    ]);
  });

  it('are for proxies with all strings of metadata that they match', async () => {
    const web = {
      ...sidecar('10.5.0.1', 'shop'),
      metadata: metadataText(
        new Map([
          ['TIER', 'web'],
          ['ZONE', 'a'],
        ]),
      ),
    };
    const matching = (metadata: object) => filter('shop', [merging('x', { proxy: { metadata } })]);
    const mesh = new Mesh(inline, [...SHOP, matching({ TIER: 'web', ZONE: 'a' })]);
    const [proxy, other] = await connected(mesh, [web, sidecar('10.5.0.2', 'shop')]);
    assert.ok(proxy !== undefined && other !== undefined);
    assert.deepEqual([statName(proxy), statName(other)], ['x', '']);
    for (const [metadata, name] of [
      [{ TIER: 'db' }, ''],
      [{ TIER: 'web' }, 'x'],
      [{ TIER: 'web', MISSING: '' }, ''],
    ] as const) {
      mesh.change([matching(metadata)]);
      await mesh.settled();
      assert.deepEqual([statName(proxy), statName(other)], [name, ''], JSON.stringify(metadata));
    }
    assert.deepEqual(mesh.failures, []);
  });

  it('are for their context', async () => {
    assert.deepEqual(await statNames(filter('shop', [merging('x', { context: 'SIDECAR_INBOUND' })])), ['', '', '']);
    assert.deepEqual(await statNames(filter('shop', [merging('x', { context: 'SIDECAR_OUTBOUND' })])), ['x', 'x', '']);
  });
});

const adding = (context: string, name: string, timeout: string) => ({
  applyTo: 'CLUSTER',
  match: { context },
  patch: { operation: 'ADD', value: { name, connect_timeout: timeout } },
});

describe('a cluster that is added to both parts of a sidecar', () => {
  const added = ({ session }: Connected): (readonly string[])[] =>
    session.parts('cds').map((part) => part.resources().flatMap(({ name }) => (/^[xy]$/.test(name) ? [name] : [])));

  it('is in the outbound part alone, because Envoy rejects a name that is there twice', async () => {
    const own = filter('shop', [adding('SIDECAR_INBOUND', 'x', '1s'), adding('SIDECAR_INBOUND', 'y', '1s')]);
    const root = filter('mesh-system', [adding('SIDECAR_OUTBOUND', 'x', '2s')]);
    const mesh = new Mesh(inline, [...SHOP, own, root]);
    const [web] = await connected(mesh, NODES);
    assert.ok(web !== undefined);
    assert.deepEqual(added(web), [['x'], ['y']]);
    mesh.change([filter('mesh-system', [adding('SIDECAR_OUTBOUND', 'z', '2s')])]);
    await mesh.settled();
    assert.deepEqual(added(web), [[], ['x', 'y']]);
    mesh.change([filter('mesh-system', [adding('SIDECAR_OUTBOUND', 'y', '2s')])]);
    await mesh.settled();
    assert.deepEqual(added(web), [['y'], ['x']]);
  });
});

describe('an added listener', () => {
  const MANAGER = 'envoy.filters.network.http_connection_manager';
  const typed = {
    '@type': 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
    rds: { route_config_name: '81', config_source: { ads: {} } },
  };
  const value = { name: 'added', filter_chains: [{ filters: [{ name: MANAGER, typed_config: typed }] }] };

  it('is there as soon as the routes are that it asks for', async () => {
    const patch = { applyTo: 'LISTENER', patch: { operation: 'ADD', value } };
    const mesh = new Mesh(inline, [...SHOP, filter('shop', [patch])]);
    const [web] = await connected(mesh, NODES);
    const isThere = () => web?.session.parts('lds').some((part) => part.get('added') !== undefined);
    assert.equal(isThere(), false);
    const ports = [{ name: 'http', port: 81, targetPort: 8081 }];
    mesh.change([service('shop', 'later', { clusterIP: '10.9.0.3', ports })]);
    await mesh.settled();
    assert.equal(isThere(), true);
  });
});

describe('a changed EnvoyFilter', () => {
  it('reaches the proxies that it is for, and sends others nothing', async () => {
    const mesh = new Mesh(inline, SHOP);
    const [web, , other] = await connected(mesh, NODES);
    assert.ok(web !== undefined && other !== undefined);
    const before = [web.pushes.length, other.pushes.length];
    const names: string[] = [];
    for (const name of ['x', 'y']) {
      mesh.change([filter('shop', [merging(name)])]);
      await mesh.settled();
      names.push(statName(web));
    }
    mesh.change([filter('shop', [merging('z', { context: 'SIDECAR_INBOUND' })])]);
    await mesh.settled();
    names.push(statName(web));
    mesh.change([filter('shop', [merging('z')])]);
    await mesh.settled();
    names.push(statName(web));
    mesh.change([], ['EnvoyFilter/shop/patches']);
    await mesh.settled();
    names.push(statName(web));
    assert.deepEqual(names, ['x', 'y', '', 'z', '']);
    assert.ok(web.pushes.length > (before[0] ?? 0));
    assert.equal(other.pushes.length, before[1]);
    assert.deepEqual(mesh.failures, []);
  });

  it('leaves the last good clusters in force where a patch does not fit', async () => {
    const mesh = new Mesh(inline, [...SHOP, filter('shop', [merging('good')])]);
    const [web] = await connected(mesh, NODES);
    assert.ok(web !== undefined);
    const renaming = { applyTo: 'CLUSTER', patch: { operation: 'MERGE', value: { name: 'renamed' } } };
    mesh.change([filter('shop', [renaming])]);
    await mesh.settled();
    assert.equal(statName(web), 'good');
    assert.match(mesh.failures.join(), /patches: spec.configPatches\[0\]: a patch cannot rename the cluster/);
    mesh.change([filter('shop', [merging('mended')])]);
    await mesh.settled();
    assert.equal(statName(web), 'mended');
  });
});

describe('a new EnvoyFilter that does not fit', () => {
  it('takes nothing from the proxies that it is for, nor from those that come later', async () => {
    const mesh = new Mesh(inline, [...SHOP, filter('mesh-system', [merging('root')])]);
    const [web] = await connected(mesh, NODES);
    const renaming = { applyTo: 'CLUSTER', patch: { operation: 'MERGE', value: { name: 'renamed' } } };
    mesh.change([filter('shop', [renaming])]);
    await mesh.settled();
    const later = mesh.connect({ ...sidecar('10.5.0.9', 'shop'), labels: { app: 'web' } });
    await mesh.settled();
    assert.ok(web !== undefined);
    assert.deepEqual([statName(web), statName(later)], ['root', 'root']);
    assert.match(mesh.failures.join(), /patches: spec.configPatches\[0\]: a patch cannot rename the cluster/);
  });
});

describe('virtual hosts that a proxy discovers', () => {
  const { VirtualHost } = envoy.config.route.v3;
  const DB = 'db.shop.svc.cluster.local:80';

  it('are patched one by one: those that no patch changes keep their versions', async () => {
    const mesh = new Mesh(inline, [service('shop', 'web'), service('shop', 'db', { clusterIP: '10.9.0.2' })]);
    const node = { ...sidecar('10.5.0.1', 'shop'), discoversVirtualHosts: true };
    const [proxy] = await connected(mesh, [node]);
    const hosts = () =>
      new Map(proxy?.session.parts('vhds').flatMap((part) => part.resources().map((each) => [each.name, each])));
    const before = hosts();
    assert.ok(before.size > 2);
    const changed = () =>
      [...hosts()].flatMap(([name, { version }]) => (before.get(name)?.version === version ? [] : [name]));
    const match = { routeConfiguration: { vhost: { name: DB } } };
    const patch = { applyTo: 'HTTP_ROUTE', match, patch: { operation: 'MERGE', value: { route: { timeout: '3s' } } } };
    mesh.change([filter('shop', [patch])]);
    await mesh.settled();
    assert.deepEqual(changed(), [`80/${DB}`]);
    const patched = hosts().get(`80/${DB}`);
    assert.ok(patched !== undefined);
    const { name, routes } = VirtualHost.decode(resourceMessage(patched));
    assert.deepEqual([name, Number(routes[0]?.route?.timeout?.seconds)], [`80/${DB}`, 3]);
    mesh.change([], ['EnvoyFilter/shop/patches']);
    await mesh.settled();
    assert.deepEqual([changed(), hosts().size], [[], before.size]);
    assert.deepEqual(mesh.failures, []);
  });
});
