import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Snapshot } from '../../model/types/types.ts';
import { workerUrl } from '../../paths.ts';
import { resourceMessage } from '../bundles/encode-resource.ts';
import { PoolGenerator } from '../jobs/pool-generator.ts';
import {
  type Connected,
  content,
  endpoints,
  inline,
  Mesh,
  meshResource,
  parse,
  ready,
  service,
  sidecar,
} from '../testing/mesh.ts';

const MANAGER = 'envoy.filters.network.http_connection_manager';
const LUA = 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua';

/** Puts a filter with this script before the router, or behind it, where it does not fit. */
function marking(mark: string, { isBad = false } = {}): object {
  const subFilter = { name: 'envoy.filters.http.router' };
  const match = {
    context: 'SIDECAR_INBOUND',
    listener: { filterChain: { filter: { name: MANAGER, ...(!isBad && { subFilter }) } } },
  };
  const value = { name: `lua-${mark}`, typed_config: { '@type': LUA, default_source_code: { inline_string: mark } } };
  return { applyTo: 'HTTP_FILTER', match, patch: { operation: isBad ? 'ADD' : 'INSERT_BEFORE', value } };
}

const filter = (name: string, ...configPatches: readonly object[]) =>
  meshResource('EnvoyFilter', 'shop', name, { configPatches });

const policy = (path: string, selection: object = {}) =>
  parse({
    apiVersion: 'security.mesh.io/v1beta1',
    kind: 'AuthorizationPolicy',
    metadata: { name: 'policy', namespace: 'shop' },
    spec: { ...selection, action: 'DENY', rules: [{ to: [{ operation: { paths: [path] } }] }] },
  });

const SHOP = [service('shop', 'web'), endpoints('shop', 'web', '10.5.0.1', '10.5.0.2')];

/** Which of these strings the listener for connections to the proxy contains. */
function found({ session }: Connected, ...texts: readonly string[]): readonly string[] {
  const listeners = session.parts('lds').flatMap((part) => part.get('virtualInbound') ?? []);
  assert.equal(listeners.length, 1);
  return texts.filter((text) => listeners.some((each) => Buffer.from(resourceMessage(each)).includes(text)));
}

async function started(...resources: Parameters<Mesh['change']>[0]): Promise<{ mesh: Mesh; proxy: Connected }> {
  const mesh = new Mesh(inline, [...SHOP, ...resources]);
  const proxy = mesh.connect(sidecar('10.5.0.1', 'shop'));
  await ready(mesh, proxy);
  return { mesh, proxy };
}

const pools: PoolGenerator[] = [];
after(() => Promise.all(pools.map((pool) => pool.close())));

/** A generator with one worker. */
function pooled(snapshot: Snapshot): PoolGenerator {
  const workerFile = fileURLToPath(workerUrl('generate'));
  const later = (ms: number, run: () => void) => void setTimeout(run, ms);
  const pool = new PoolGenerator({ threads: 1, workerFile, onCrash: () => {}, later, random: () => 0 });
  pool.begin(snapshot);
  pools.push(pool);
  return pool;
}

describe('EnvoyFilters and policies that select a proxy by label', () => {
  it('follow the labels of a proxy without a service when it connects anew', async () => {
    const workloadSelector = { labels: { tier: 'new' } };
    const selected = meshResource('EnvoyFilter', 'shop', 'mark', {
      workloadSelector,
      configPatches: [marking('mark-1')],
    });
    const { mesh } = await started(selected, policy('/secret', { selector: { matchLabels: { tier: 'new' } } }));
    const node = (tier: string) => ({ ...sidecar('10.5.0.9', 'shop'), labels: { app: 'job', tier } });
    for (const tier of ['old', 'new', 'other']) {
      const proxy = mesh.connect(node(tier));
      await ready(mesh, proxy);
      assert.deepEqual(found(proxy, 'mark-1', '/secret'), tier === 'new' ? ['mark-1', '/secret'] : [], tier);
      proxy.session.close();
    }
  });

  it('follow their own selectors for a proxy without a service', async () => {
    const { mesh } = await started();
    const proxy = mesh.connect({ ...sidecar('10.5.0.9', 'shop'), labels: { tier: 'new' } });
    await ready(mesh, proxy);
    for (const tier of ['new', 'old', 'new']) {
      const filters = { workloadSelector: { labels: { tier } }, configPatches: [marking('mark-1')] };
      const selector = { matchLabels: { tier } };
      mesh.change([meshResource('EnvoyFilter', 'shop', 'mark', filters), policy('/secret', { selector })]);
      await mesh.settled();
      assert.deepEqual(found(proxy, 'mark-1', '/secret'), tier === 'new' ? ['mark-1', '/secret'] : [], tier);
    }
  });
});

describe('EnvoyFilters whose edit does not fit', () => {
  it('keep their former version, and a policy of the same listener is in force at once', async () => {
    const { mesh, proxy } = await started(filter('mark', marking('mark-1')));
    assert.deepEqual(found(proxy, 'mark-1', '/secret'), ['mark-1']);
    mesh.change([filter('mark', marking('mark-2', { isBad: true }))]);
    await mesh.settled();
    assert.match(
      mesh.failures.join('\n'),
      /lua-mark-2 is inserted after .*; the former version of EnvoyFilter\/shop\/mark applies/,
    );
    mesh.change([policy('/secret')]);
    await mesh.settled();
    assert.deepEqual(found(proxy, 'mark-1', 'mark-2', '/secret'), ['mark-1', '/secret']);
    // Another edit that does not fit, and one that does.
    mesh.change([filter('mark', marking('mark-3', { isBad: true })), policy('/other')]);
    await mesh.settled();
    assert.deepEqual(found(proxy, 'mark-1', 'mark-3', '/secret', '/other'), ['mark-1', '/other']);
    mesh.change([filter('mark', marking('mark-4'))]);
    await mesh.settled();
    assert.deepEqual(found(proxy, 'mark-1', 'mark-4', '/other'), ['mark-4', '/other']);
  });

  it('keep it for proxies that get a new view by the edit', async () => {
    const { mesh, proxy } = await started(filter('mark', marking('mark-1')));
    mesh.change([filter('mark', marking('mark-1'), marking('mark-2', { isBad: true })), policy('/secret')]);
    await mesh.settled();
    assert.deepEqual(found(proxy, 'mark-1', 'mark-2', '/secret'), ['mark-1', '/secret']);
    // And for a new Pod with this view.
    const other = mesh.connect(sidecar('10.5.0.2', 'shop'));
    await ready(mesh, other);
    assert.deepEqual(found(other, 'mark-1', 'mark-2', '/secret'), ['mark-1', '/secret']);
  });

  it('are left out where there is no former version, and policies are in force at once', async () => {
    const { mesh, proxy } = await started(
      filter('good', marking('mark-1')),
      filter('bad', marking('bad', { isBad: true })),
    );
    assert.deepEqual(found(proxy, 'mark-1', 'bad'), ['mark-1']);
    assert.match(mesh.failures.join('\n'), /EnvoyFilter\/shop\/bad is left out/);
    mesh.change([policy('/secret')]);
    await mesh.settled();
    assert.deepEqual(found(proxy, 'mark-1', 'bad', '/secret'), ['mark-1', '/secret']);
  });

  it('keep it after a restart of the worker, byte for byte', async () => {
    const steps = [
      [filter('mark', marking('mark-1', { isBad: true })), policy('/secret')],
      [filter('mark', marking('mark-2', { isBad: true }), marking('mark-3')), policy('/other')],
    ];
    const meshes = [inline, pooled].map((make) => new Mesh(make, [...SHOP, filter('mark', marking('mark-0'))]));
    const proxies = meshes.map((mesh) => mesh.connect(sidecar('10.5.0.1', 'shop')));
    await Promise.all(meshes.map((mesh, index) => ready(mesh, ...proxies.slice(index, index + 1))));
    for (const step of steps) {
      for (const thread of pools.flatMap(({ threads }) => threads)) await thread.terminate();
      for (const mesh of meshes) mesh.change(step);
      await Promise.all(meshes.map((mesh) => mesh.settledWithoutFailures()));
      const [one, other] = proxies.map(({ session }) => content(session));
      assert.deepEqual(other, one);
      for (const proxy of proxies) assert.deepEqual(found(proxy, 'mark-0', 'mark-2', 'mark-3'), ['mark-0']);
    }
  });

  it('never get the version before one that fitted: a unit that no longer fits that stays as it is', async () => {
    const domain = (name: string) => {
      const value = { name, domains: [name], routes: [] };
      return filter('domain', { applyTo: 'VIRTUAL_HOST', patch: { operation: 'ADD', value } });
    };
    const entry = meshResource('ServiceEntry', 'shop', 'taken', {
      hosts: ['two.example.com'],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    });
    const { mesh, proxy } = await started(domain('one.example.com'));
    const domains = () => {
      const routes = proxy.session.parts('rds').flatMap((part) => part.get('80') ?? []);
      const texts = ['one.example.com', 'two.example.com', 'web.shop'];
      return texts.filter((text) => routes.some((each) => Buffer.from(resourceMessage(each)).includes(text)));
    };
    assert.deepEqual(domains(), ['one.example.com', 'web.shop']);
    mesh.change([domain('two.example.com')]);
    await mesh.settled();
    assert.deepEqual(domains(), ['two.example.com', 'web.shop']);
    const before = content(proxy.session).rds;
    mesh.change([entry]);
    await mesh.settled();
    assert.match(mesh.failures.join(), /two\.example\.com twice; .* the last good version stays in force/);
    assert.deepEqual(content(proxy.session).rds, before);
    mesh.change([domain('three.example.com')]);
    await mesh.settled();
    assert.notDeepEqual(content(proxy.session).rds, before);
  });

  it('have no former version in a part from which they were removed', async () => {
    const { mesh, proxy } = await started(filter('mark', marking('mark-1')));
    mesh.change([], ['EnvoyFilter/shop/mark']);
    await mesh.settled();
    mesh.change([filter('mark', marking('mark-2', { isBad: true })), policy('/secret')]);
    await mesh.settled();
    assert.deepEqual(found(proxy, 'mark-1', 'mark-2', '/secret'), ['/secret']);
  });
});
