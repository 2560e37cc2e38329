/** The source of a scripted API server: which kinds it reads, what is in force, and what the log says. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { DEFINITIONS, type ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import {
  CORE,
  closeAll,
  follow,
  ISTIO_ROUTES,
  meshType,
  POLICIES,
  pathOf,
  ROUTES,
  route,
  SERVICES,
  scripted,
  service,
} from './testing/scripted-source.ts';

afterEach(closeAll);

describe('the source of a scripted API server', () => {
  test('lists every kind that the server has, and then is synced', async () => {
    const server = await scripted(ROUTES, POLICIES);
    server.set(SERVICES, service('web'));
    server.set(pathOf(ROUTES), route('web'));
    const { lists, inForce, isSynced, store } = follow(server);
    await waitUntil(isSynced);
    const kinds = 'AuthorizationPolicy Endpoints Namespace Node Pod Service ServiceAccount VirtualService';
    assert.equal(lists.sort().join(' '), kinds);
    assert.deepEqual(inForce(), ['Service/shop/web', 'VirtualService/shop/web']);
    const { origin } = store.get('VirtualService/shop/web') ?? {};
    assert.deepEqual([origin?.source, origin?.uid], ['kubernetes', 'uid-shop/web']);
    assert.match(origin?.resourceVersion ?? '', /^\d+$/);
  });

  test('reads EndpointSlices in place of Endpoints when it is configured so', async () => {
    const server = await scripted();
    const { lists, isSynced } = follow(server, { useEndpointSlice: true });
    await waitUntil(isSynced);
    assert.ok(lists.includes('EndpointSlice') && !lists.includes('Endpoints'));
  });

  test('says once how to read EndpointSlices where the server warns that Endpoints are deprecated', async () => {
    const server = await scripted();
    server.intercept = ({ path }, stream) => {
      if (!path.endsWith('/endpoints')) return false;
      stream.respond({
        ':status': 200,
        'content-type': 'application/json;stream=watch',
        warning: '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"',
      });
      const metadata = { resourceVersion: '100', annotations: { 'k8s.io/initial-events-end': 'true' } };
      stream.write(`${JSON.stringify({ type: 'BOOKMARK', object: { metadata } })}\n`);
      return true;
    };
    const { lines, isSynced } = follow(server, { namespaces: ['shop', 'store'] });
    await waitUntil(isSynced);
    assert.deepEqual(
      lines.filter((line) => line.startsWith('Endpoints')),
      [
        'Endpoints: the API server warns: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 ' +
          'EndpointSlice; set CTL_USE_ENDPOINT_SLICE=true to read EndpointSlices instead',
      ],
    );
  });

  test('is not synced before a kind that can be read was listed', async () => {
    const server = await scripted(ROUTES);
    let broken = true;
    server.intercept = ({ path }, stream) => path === pathOf(ROUTES) && broken && server.fail(stream, 503);
    const { lists, isSynced, source } = follow(server);
    const routes = () => server.requests.filter(({ path }) => path === pathOf(ROUTES)).length;
    await waitUntil(() => lists.length === CORE.length && routes() >= 4);
    assert.equal(isSynced(), false);
    assert.equal(source.health().ok, false);
    broken = false;
    await waitUntil(isSynced);
    assert.deepEqual(source.health(), { ok: true });
  });

  test('continues without a kind that is forbidden, with one log line, and reads it once it is allowed', async () => {
    const server = await scripted(ROUTES);
    server.set(pathOf(ROUTES), route('web'));
    let forbidden = true;
    server.intercept = ({ path }, stream) =>
      path === pathOf(ROUTES) && forbidden && server.fail(stream, 403, 'Forbidden');
    const { lines, inForce, isSynced } = follow(server);
    await waitUntil(isSynced);
    const logged = () => lines.filter((line) => line.startsWith('VirtualService.networking.mesh.io'));
    await waitUntil(() => logged().length === 1);
    assert.match(
      logged()[0] ?? '',
      /: cannot list: HTTP 403 Forbidden: .*; no document of this kind is in force until/,
    );
    forbidden = false;
    await waitUntil(() => inForce().length === 1 && logged().length === 2);
    assert.match(logged()[1] ?? '', /read again/);
  });

  test('is not synced without a kind of policies that is forbidden', async () => {
    const server = await scripted(POLICIES);
    let forbidden = true;
    server.intercept = ({ path }, stream) =>
      path === pathOf(POLICIES) && forbidden && server.fail(stream, 403, 'Forbidden');
    const { lines, lists, isSynced } = follow(server);
    const asked = () => server.requests.filter(({ path }) => path === pathOf(POLICIES)).length;
    await waitUntil(
      () =>
        lists.length === CORE.length &&
        asked() >= 5 &&
        lines.some((line) => /does not become ready without this kind/.test(line)),
    );
    assert.equal(isSynced(), false);
    forbidden = false;
    await waitUntil(isSynced);
  });

  test('keeps what it read of a kind that becomes forbidden', async () => {
    const server = await scripted(ROUTES);
    server.set(pathOf(ROUTES), route('web'));
    const { lines, inForce, isSynced } = follow(server);
    await waitUntil(isSynced);
    server.intercept = ({ path }, stream) => path === pathOf(ROUTES) && server.fail(stream, 403, 'Forbidden');
    server.compact();
    server.endWatches();
    await waitUntil(() => lines.some((line) => /VirtualService.*what was read before stays in force/.test(line)));
    assert.deepEqual(inForce(), ['VirtualService/shop/web']);
  });

  test('writes one line when all kinds fail for one reason', async () => {
    const server = await scripted(ROUTES, POLICIES);
    const { lines, isSynced, source } = follow(server, { clock: fastClock(5) });
    await waitUntil(isSynced);
    server.intercept = (_, stream) => server.fail(stream, 401, 'Unauthorized');
    server.endWatches();
    const failures = () => lines.filter((line) => /cannot watch: HTTP 401/.test(line));
    await waitUntil(() => failures().length > 0);
    server.intercept = () => false;
    await waitUntil(() => source.health().ok && lines.some((line) => /read again from the API server/.test(line)));
    assert.equal(failures().length, 1);
    assert.match(failures()[0] ?? '', /^([\w.]+, ){6}3 more: cannot watch/);
  });

  test('reads a kind that is defined later, and removes it when its definition is deleted', async () => {
    const server = await scripted();
    const { lines, inForce, isSynced } = follow(server);
    await waitUntil(isSynced);
    assert.ok(lines.some((line) => /serves no kinds of the mesh/.test(line)));
    server.define(ROUTES);
    server.set(pathOf(ROUTES), route('web'));
    await waitUntil(() => inForce().length === 1);
    server.undefine(ROUTES);
    await waitUntil(() => inForce().length === 0);
    await waitUntil(() => lines.some((line) => /the definition and all objects of the kind were deleted/.test(line)));
    server.define(ROUTES);
    server.set(pathOf(ROUTES), route('other'));
    await waitUntil(() => inForce().join() === 'VirtualService/shop/other');
  });

  test('keeps the documents of a kind that discovery lacks while its definition is there', async () => {
    const server = await scripted(ROUTES);
    server.set(pathOf(ROUTES), route('web'));
    const { inForce, isSynced } = follow(server);
    await waitUntil(isSynced);
    let asked = 0;
    server.intercept = ({ path, query }, stream) => {
      const missing =
        path.startsWith('/apis/networking.mesh.io') &&
        (!path.endsWith('virtualservices') || query.get('watch') === '1');
      if (missing) asked++;
      return missing && server.fail(stream, 404, 'NotFound');
    };
    server.endWatches();
    await waitUntil(() => asked >= 8);
    assert.deepEqual(inForce(), ['VirtualService/shop/web']);
  });

  test('looks for new kinds at intervals where definitions may not be watched', async () => {
    const server = await scripted();
    server.intercept = ({ path }, stream) => path === DEFINITIONS && server.fail(stream, 403, 'Forbidden');
    const { lines, inForce, isSynced } = follow(server);
    await waitUntil(isSynced);
    await waitUntil(() =>
      lines.some((line) => /CustomResourceDefinition: .*API discovery is repeated every 60 s/.test(line)),
    );
    server.define(ROUTES);
    server.set(pathOf(ROUTES), route('web'));
    await waitUntil(() => inForce().length === 1);
    server.undefine(ROUTES);
    await waitUntil(() => inForce().length === 0);
  });

  test('reads a kind in the newest of its versions that it knows', async () => {
    const server = await scripted(ROUTES, { ...ROUTES, version: 'v1alpha3' }, { ...ROUTES, version: 'v2' });
    server.set(pathOf(ROUTES), route('web'));
    const { inForce, isSynced } = follow(server);
    await waitUntil(isSynced);
    assert.deepEqual(inForce(), ['VirtualService/shop/web']);
    assert.ok(server.requests.every(({ path, query }) => !query.has('watch') || !/v1alpha3|v2/.test(path)));
  });

  test('has one document of a name that two groups hold, and reports the other', async () => {
    const server = await scripted(ROUTES, ISTIO_ROUTES);
    server.set(pathOf(ISTIO_ROUTES), route('web', 'istio'));
    server.set(pathOf(ISTIO_ROUTES), route('only', 'istio'));
    server.set(pathOf(ROUTES), route('web', 'mesh'));
    const { store, inForce, lists, isSynced } = follow(server);
    await waitUntil(isSynced);
    const hosts = () => {
      const resource = store.get('VirtualService/shop/web');
      return resource?.kind === 'VirtualService' ? resource.content.hosts : undefined;
    };
    assert.equal(lists.filter((list) => list === 'VirtualService').length, 1);
    assert.deepEqual(inForce(), ['VirtualService/shop/only', 'VirtualService/shop/web']);
    assert.deepEqual(hosts(), ['mesh']);
    assert.match(
      store.problems()[0]?.message ?? '',
      /that of networking.mesh.io is in force, not that of networking.istio.io/,
    );
    server.remove(pathOf(ROUTES), { name: 'web', namespace: 'shop' });
    await waitUntil(() => hosts()?.[0] === 'istio');
    assert.equal(store.problems().length, 0);
    server.undefine(ISTIO_ROUTES);
    await waitUntil(() => inForce().length === 0);
  });

  test('keeps the last good version of a document that becomes invalid', async () => {
    const server = await scripted(ROUTES);
    server.set(pathOf(ROUTES), route('web'));
    const { store, inForce, isSynced } = follow(server);
    await waitUntil(isSynced);
    server.set(pathOf(ROUTES), { ...route('web'), spec: { hosts: 7 } });
    await waitUntil(() => store.problems().length === 1);
    assert.equal(store.problems()[0]?.id, 'VirtualService/shop/web');
    assert.deepEqual(inForce(), ['VirtualService/shop/web']);
    server.set(pathOf(ROUTES), route('web', 'repaired'));
    await waitUntil(() => store.problems().length === 0);
  });

  describe('with Gateways', () => {
    const GATEWAYS = meshType('Gateway', 'gateways');
    const SECRETS = '/api/v1/secrets';
    const gateway = (...credentialNames: readonly string[]) => ({
      metadata: { name: 'edge', namespace: 'edge' },
      spec: {
        selector: { istio: 'ingressgateway' },
        servers: credentialNames.map((credentialName, index) => ({
          port: { number: 443 + index, name: `https-${index}`, protocol: 'HTTPS' },
          hosts: ['*'],
          tls: { mode: 'SIMPLE', credentialName },
        })),
      },
    });
    const secret = (name: string, text = 'x') => ({
      metadata: { name, namespace: 'edge' },
      type: 'Opaque',
      data: { text: Buffer.from(text).toString('base64') },
    });

    async function withSecrets(...names: readonly string[]): Promise<ScriptedApiServer> {
      const server = await scripted(GATEWAYS);
      server.serve(SECRETS);
      for (const name of names) server.set(SECRETS, secret(name));
      return server;
    }

    test('reads the Secrets that they name and no other, before it is synced', async () => {
      const server = await withSecrets('web', 'web-cacert', 'database');
      server.set(pathOf(GATEWAYS), gateway('kubernetes://web'));
      const { inForce, isSynced } = follow(server);
      await waitUntil(isSynced);
      assert.deepEqual(inForce(), ['Gateway/edge/edge', 'Secret/edge/web', 'Secret/edge/web-cacert']);
      const asked = server.requests.filter(({ path }) => path === SECRETS);
      const selectors = asked.map(({ query }) => query.get('fieldSelector')).sort();
      assert.deepEqual(selectors, ['metadata.name=web', 'metadata.name=web-cacert']);
    });

    test('follows Secrets as they are named, renewed, deleted and not named any more', async () => {
      const server = await withSecrets('web', 'other');
      const { inForce, isSynced, store } = follow(server);
      await waitUntil(isSynced);
      assert.deepEqual(inForce(), []);
      server.set(pathOf(GATEWAYS), gateway('web', 'other'));
      await waitUntil(() => inForce().join() === 'Gateway/edge/edge,Secret/edge/other,Secret/edge/web');
      const before = store.get('Secret/edge/web')?.fingerprint;
      server.set(SECRETS, secret('web', 'renewed'));
      await waitUntil(() => store.get('Secret/edge/web')?.fingerprint !== before);
      server.remove(SECRETS, { name: 'other', namespace: 'edge' });
      await waitUntil(() => inForce().join() === 'Gateway/edge/edge,Secret/edge/web');
      server.remove(pathOf(GATEWAYS), { name: 'edge', namespace: 'edge' });
      await waitUntil(() => inForce().length === 0);
      await waitUntil(() => server.watches(SECRETS) === 0);
    });

    test('reports which names may be read, and which may not any more', async () => {
      const server = await withSecrets('web');
      server.set(pathOf(GATEWAYS), gateway('web'));
      let forbidden = true;
      server.intercept = ({ path, query }, stream) =>
        path === SECRETS &&
        forbidden &&
        query.get('fieldSelector') === 'metadata.name=web' &&
        server.fail(stream, 403, 'Forbidden');
      const known = new Map<string, string>();
      const { isSynced } = follow(server, {
        clock: fastClock(10),
        onAccess: (kind, name, access) => void known.set(`${kind} ${name}`, access),
      });
      await waitUntil(isSynced);
      assert.deepEqual([known.get('Secret web'), known.get('Secret web-cacert')], ['forbidden', 'read']);
      forbidden = false;
      await waitUntil(() => known.get('Secret web') === 'read');
      server.remove(pathOf(GATEWAYS), { name: 'edge', namespace: 'edge' });
      await waitUntil(() => known.get('Secret web') === 'pending');
    });

    test('is synced without Secrets that are forbidden, and says so in one line', async () => {
      const server = await withSecrets('web');
      server.set(pathOf(GATEWAYS), gateway('web'));
      server.intercept = ({ path }, stream) => path === SECRETS && server.fail(stream, 403, 'Forbidden');
      const { inForce, isSynced, lines } = follow(server, { clock: fastClock(10) });
      await waitUntil(isSynced);
      assert.deepEqual(inForce(), ['Gateway/edge/edge']);
      await waitUntil(() =>
        lines.some((line) => line.startsWith('Secret web, Secret web-cacert: cannot list: HTTP 403')),
      );
    });
  });

  test('reads only the namespaces that it is given, and cluster-wide kinds', async () => {
    const server = await scripted(ROUTES);
    for (const namespace of ['shop', 'other', 'mesh-system']) server.set(SERVICES, service('web', namespace));
    server.set('/api/v1/namespaces', { metadata: { name: 'shop' } });
    const { inForce, isSynced, lists } = follow(server, { namespaces: ['shop', 'mesh-system'] });
    await waitUntil(isSynced);
    assert.deepEqual(inForce(), ['Namespace//shop', 'Service/mesh-system/web', 'Service/shop/web']);
    assert.ok(lists.includes('Service in shop') && lists.includes('Namespace'));
    assert.ok(!server.requests.some(({ path }) => path === SERVICES));
  });

  test('reads no kinds of the mesh where they come from files', async () => {
    const server = await scripted(ROUTES);
    server.set(pathOf(ROUTES), route('web'));
    server.set(SERVICES, service('web'));
    const { inForce, isSynced } = follow(server, { meshKinds: false });
    await waitUntil(isSynced);
    assert.deepEqual(inForce(), ['Service/shop/web']);
    assert.ok(server.requests.every(({ path }) => path.startsWith('/api/v1/')));
  });

  test('changes nothing while the server is unavailable, and logs it once', async () => {
    const server = await scripted(ROUTES);
    server.set(SERVICES, service('web'));
    const { lines, inForce, isSynced, source } = follow(server);
    await waitUntil(isSynced);
    await server.stop();
    await waitUntil(() => !source.health().ok);
    assert.deepEqual(inForce(), ['Service/shop/web']);
    const logged = lines.filter((line) => /cannot be reached: .*; what was read stays in force/.test(line));
    assert.equal(logged.length, 1);
  });
});
