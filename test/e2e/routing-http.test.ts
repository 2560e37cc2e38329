/** HTTP routing by VirtualService: real Envoys follow every edit, over SotW and over Delta. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { afterEach, before, test } from 'node:test';
import type { RequestOptions } from '../harness/index.ts';
import { endpoints, resource, service } from './support/config.ts';
import type { MeshProxy } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll, type Outcome, tally } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

before(async () => {
  shared.set(await startVersionsMesh(owner, { env: { CTL_ENABLE_VIRTUAL_SERVICE_DELEGATE: 'true' } }));
});

afterEach(async () => {
  await mesh()
    .config.remove('routes')
    .catch(() => undefined);
});

type Call = Omit<RequestOptions, 'port' | 'address'>;

function send(client: MeshProxy, options: Call = {}): Promise<Outcome> {
  return call({ address: client.address, port: HTTP_PORT, host: 'web', ...options });
}

/** Waits until both clients have this outcome. */
function eventually(check: (client: MeshProxy) => Promise<void>): Promise<void> {
  return eventuallyAll(mesh().clients, check);
}

async function routeWeb(http: readonly object[]): Promise<void> {
  await mesh().config.apply('routes', resource('VirtualService', 'web', { hosts: ['web'], http }));
}

/** Without a rule, requests are spread over the pods. */
async function spreads(client: MeshProxy): Promise<void> {
  const seen = await tally({ address: client.address, port: HTTP_PORT, host: 'web' }, 10);
  assert.deepEqual(Object.keys(seen).sort(), ['web-v1', 'web-v2']);
}

test('without rules requests reach every pod by every form of the host, unknown hosts are refused', async () => {
  await eventually(spreads);
  await eventually(async (client) => {
    for (const host of [
      'web',
      `web:${HTTP_PORT}`,
      'web.default',
      'web.default.svc',
      'web.default.svc.cluster.local',
      'WEB',
      // A complete name, of which resolvers complete nothing.
      'web.default.svc.cluster.local.',
      `web.default.svc.cluster.local.:${HTTP_PORT}`,
    ]) {
      assert.equal((await send(client, { host })).status, 200, host);
    }
    const { reply } = await send(client, { host: 'Web.default.svc.cluster.local.' });
    assert.equal(reply?.headers.host, 'Web.default.svc.cluster.local', 'what the application sees');
    assert.equal((await send(client, { host: 'nowhere.example' })).status, 502);
  });
});

test('each kind of match routes its requests elsewhere, and no others', async () => {
  const rows: readonly { readonly what: string; readonly match: object; readonly hit: Call; readonly miss: Call }[] = [
    { what: 'exact path', match: { uri: { exact: '/e' } }, hit: { path: '/e?q=1' }, miss: { path: '/e/x' } },
    { what: 'path prefix', match: { uri: { prefix: '/p/' } }, hit: { path: '/p/x' }, miss: { path: '/px' } },
    {
      what: 'path by regular expression',
      match: { uri: { regex: '/r/[0-9]+' } },
      hit: { path: '/r/42' },
      miss: { path: '/r/42x' },
    },
    {
      what: 'path, ignoring case',
      match: { uri: { exact: '/Case' }, ignoreUriCase: true },
      hit: { path: '/cASE' },
      miss: { path: '/cases' },
    },
    {
      what: 'exact header',
      match: { headers: { 'x-v': { exact: '2' } } },
      hit: { headers: { 'x-v': '2' } },
      miss: { headers: { 'x-v': '22' } },
    },
    {
      what: 'present header',
      match: { headers: { 'x-any': {} } },
      hit: { headers: { 'x-any': 'whatever' } },
      miss: {},
    },
    {
      what: 'missing header',
      match: { uri: { prefix: '/w' }, withoutHeaders: { 'x-not': {} } },
      hit: { path: '/w' },
      miss: { path: '/w', headers: { 'x-not': '1' } },
    },
    { what: 'method', match: { method: { exact: 'PUT' } }, hit: { method: 'PUT' }, miss: { method: 'POST' } },
    {
      what: 'query parameter',
      match: { queryParams: { v: { exact: '2' } } },
      hit: { path: '/?v=2' },
      miss: { path: '/?v=3' },
    },
    {
      what: 'authority',
      match: { authority: { prefix: 'web.default.svc' } },
      hit: { host: 'web.default.svc' },
      miss: { host: 'web.default' },
    },
    {
      what: 'path and header together',
      match: { uri: { prefix: '/both' }, headers: { 'x-b': { prefix: 'b' } } },
      hit: { path: '/both', headers: { 'x-b': 'bb' } },
      miss: { path: '/both', headers: { 'x-b': 'a' } },
    },
  ];
  await routeWeb([...rows.map(({ match }) => ({ match: [match], route: [to('v2')] })), { route: [to('v1')] }]);
  await eventually(async (client) => {
    for (const { what, hit, miss } of rows) {
      assert.equal((await send(client, hit)).by, 'web-v2', `${client.mode}: ${what}`);
      assert.equal((await send(client, miss)).by, 'web-v1', `${client.mode}: not ${what}`);
    }
  });
  await mesh().config.remove('routes');
  await eventually(spreads);
});

test('a match on labels applies to the clients that have them', async () => {
  await routeWeb([{ match: [{ sourceLabels: { app: 'client-sotw' } }], route: [to('v2')] }, { route: [to('v1')] }]);
  await eventually(async (client) => {
    const expected = client.name === 'client-sotw' ? 'web-v2' : 'web-v1';
    assert.deepEqual(await tally({ address: client.address, port: HTTP_PORT, host: 'web' }, 6), { [expected]: 6 });
  });
});

test('routes that are delegated follow the delegate', async () => {
  const { config } = mesh();
  const http = [{ match: [{ uri: { prefix: '/part' } }], delegate: { name: 'part' } }, { route: [to('v2')] }];
  const root = resource('VirtualService', 'web', { hosts: ['web'], http });
  const part = (subset: string) => resource('VirtualService', 'part', { http: [{ route: [to(subset)] }] });
  const answers = (path: string, version: string) =>
    eventually(async (client) => assert.equal((await send(client, { path })).by, `web-${version}`));
  await config.apply('routes', root, part('v1'));
  await answers('/part', 'v1');
  await answers('/', 'v2');
  await config.apply('routes', root, part('v2'));
  await answers('/part', 'v2');
});

test('weights move traffic from one version to the other, edit by edit', async () => {
  const shift = (v1: number, v2: number) =>
    routeWeb([
      {
        route: [
          { ...to('v1'), weight: v1 },
          { ...to('v2'), weight: v2 },
        ],
      },
    ]);
  const seen = (client: MeshProxy) => tally({ address: client.address, port: HTTP_PORT, host: 'web' }, 40);
  await shift(100, 0);
  await eventually(async (client) => assert.deepEqual(await seen(client), { 'web-v1': 40 }));
  await shift(50, 50);
  await eventually(async (client) => {
    const { 'web-v1': v1 = 0, 'web-v2': v2 = 0 } = await seen(client);
    assert.ok(v1 > 3 && v2 > 3 && v1 + v2 === 40, `${v1} and ${v2} of 40`);
  });
  await shift(0, 100);
  await eventually(async (client) => assert.deepEqual(await seen(client), { 'web-v2': 40 }));
});

test('a timeout ends slow answers until it is removed', async () => {
  const slow = { path: '/?delayMs=600' };
  await routeWeb([{ timeout: '0.2s', route: [to('v1')] }]);
  await eventually(async (client) => assert.equal((await send(client, slow)).status, 504));
  await routeWeb([{ route: [to('v1')] }]);
  await eventually(async (client) => assert.equal((await send(client, slow)).status, 200));
});

test('retries hide failures that are visible without them', async (t) => {
  let requests = 0;
  // Fails twice, then answers, and so on.
  const flaky = createServer((_, response) => {
    response.writeHead(requests++ % 3 === 2 ? 200 : 500, { 'x-echo': 'flaky' });
    response.end('{}');
  });
  const address = mesh().address(23);
  await new Promise<void>((resolve) => flaky.listen(HTTP_PORT, address, resolve));
  t.after(async () => {
    flaky.closeAllConnections();
    flaky.close();
    await mesh().config.remove('flaky');
  });
  await mesh().config.apply(
    'flaky',
    service('flaky', { clusterIP: '10.96.0.2', ports: [{ name: 'http', port: HTTP_PORT }] }),
    endpoints('flaky', [address], [{ name: 'http', port: HTTP_PORT }]),
  );
  const [client] = mesh().clients;
  assert.ok(client);
  const three = async (path = '/'): Promise<number[]> => {
    requests = 0;
    const statuses: number[] = [];
    for (let i = 0; i < 3; i++) statuses.push((await send(client, { host: 'flaky', path })).status);
    return statuses;
  };
  await eventuallyAll([client], async () => assert.deepEqual(await three(), [500, 500, 200]));
  const route = [{ destination: { host: 'flaky' } }];
  const retries = { attempts: 3, retryOn: '5xx', perTryTimeout: '1s' };
  await mesh().config.apply(
    'routes',
    resource('VirtualService', 'flaky', { hosts: ['flaky'], http: [{ route, retries }] }),
  );
  await eventuallyAll([client], async () => assert.deepEqual(await three(), [200, 200, 200]));
  // The virtual host has the settings that several routes share; other routes override them.
  const at = (...paths: string[]) => ({ match: paths.map((exact) => ({ uri: { exact } })), route });
  const http = [{ ...at('/a', '/b'), retries }, { ...at('/none'), retries: { attempts: 0 } }, { route }];
  await mesh().config.apply('routes', resource('VirtualService', 'flaky', { hosts: ['flaky'], http }));
  await eventuallyAll([client], async () => {
    for (const path of ['/none', '/']) assert.deepEqual(await three(path), [500, 500, 200], path);
    for (const path of ['/a', '/b']) assert.deepEqual(await three(path), [200, 200, 200], path);
  });
});

test('redirects are answered by the proxy', async () => {
  await routeWeb([
    { match: [{ uri: { prefix: '/old' } }], redirect: { uri: '/new', redirectCode: 302 } },
    { match: [{ uri: { prefix: '/moved' } }], redirect: { authority: 'other.example' } },
    { route: [to('v1')] },
  ]);
  await eventually(async (client) => {
    const old = await send(client, { path: '/old' });
    assert.deepEqual([old.status, old.location], [302, 'http://web/new']);
    const moved = await send(client, { path: '/moved/x' });
    assert.deepEqual([moved.status, moved.location], [301, 'http://other.example/moved/x']);
    assert.equal((await send(client)).by, 'web-v1');
  });
});

test('rewrites and header changes are visible at the backend', async () => {
  await routeWeb([
    {
      match: [{ uri: { prefix: '/api/' } }],
      rewrite: { uri: '/', authority: 'inside.example' },
      headers: { request: { set: { 'x-set': 'yes' }, remove: ['x-gone'] } },
      route: [to('v1')],
    },
    { route: [to('v2')] },
  ]);
  await eventually(async (client) => {
    const { by, reply } = await send(client, { path: '/api/items?q=1', headers: { 'x-gone': '1' } });
    assert.equal(by, 'web-v1');
    assert.equal(reply?.path, '/items?q=1');
    assert.equal(reply.headers.host, 'inside.example');
    assert.equal(reply.headers['x-set'], 'yes');
    assert.equal(reply.headers['x-gone'], undefined);
  });
});

test('a route to an empty subset or a missing service returns HTTP 503; everything else is served', async () => {
  await routeWeb([
    { match: [{ uri: { exact: '/subset' } }], route: [to('v9')] },
    { match: [{ uri: { exact: '/service' } }], route: [{ destination: { host: 'nobody' } }] },
    { route: [to('v1')] },
  ]);
  await eventually(async (client) => {
    assert.equal((await send(client)).by, 'web-v1');
    assert.deepEqual(await tally({ address: client.address, port: HTTP_PORT, host: 'web', path: '/x' }, 4), {
      'web-v1': 4,
    });
    for (const path of ['/subset', '/service']) assert.equal((await send(client, { path })).status, 503, path);
  });
});
