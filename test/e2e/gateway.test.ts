/** Gateways (proxies of type `router`): real Envoys that open the ports which Gateway resources name. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { afterEach, before, test } from 'node:test';
import { createServer } from 'node:tls';
import { eventually as retry, startEcho, startTcpEcho } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { type MeshProxy, MODES, planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll, greeting, tally, tlsGreeting } from './support/traffic.ts';

const BACKEND_PORT = 7480;
/** Ports of the gateways. */
const HTTP = 7080;
const TCP = 7090;
const TLS = 7443;

const owner = suiteOwner();
const address = planMesh();
const shared = lazy<TestMesh & { readonly gateways: readonly MeshProxy[] }>();
const mesh = () => shared.get();

interface Server {
  readonly hosts: readonly string[];
  readonly port: { readonly number: number; readonly name: string; readonly protocol: string };
  readonly tls?: Document;
}

/**
 * Both gateways serve the same resources. Since they have different addresses, each server exists once for each of
 * them.
 */
function gateway(name: string, servers: readonly Server[], namespace?: string): Document[] {
  return mesh().gateways.map((proxy) =>
    resource(
      'Gateway',
      `${name}-${proxy.mode}`,
      { selector: { app: proxy.name }, servers: servers.map((server) => ({ ...server, bind: proxy.address })) },
      namespace,
    ),
  );
}

const http = (hosts: readonly string[], tls?: Document): Server => ({
  hosts,
  port: { number: HTTP, name: tls === undefined ? 'http' : 'http-tls', protocol: 'HTTP' },
  ...(tls === undefined ? {} : { tls }),
});

/** For a VirtualService: the gateway of this name, in both copies. */
const through = (name: string, namespace = 'default') => MODES.map((mode) => `${namespace}/${name}-${mode}`);

const routeTo = (host: string) => [{ route: [{ destination: { host: `${host}.default.svc.cluster.local` } }] }];

function eventually(check: (gateway: MeshProxy) => Promise<void>): Promise<void> {
  return eventuallyAll(mesh().gateways, check);
}

const at = (proxy: MeshProxy, host: string, path = '/') => ({ address: proxy.address, port: HTTP, host, path });

function backend(name: string, ip: string, port: number, protocol: string): Document[] {
  return [
    service(name, { ports: [{ name: protocol, port: BACKEND_PORT }] }),
    endpoints(name, [ip], [{ name: protocol, port }]),
  ];
}

before(async () => {
  const a = await startEcho(owner, { name: 'a', address: address(21), port: BACKEND_PORT });
  const b = await startEcho(owner, { name: 'b', address: address(22), port: BACKEND_PORT });
  const bytes = await startTcpEcho(owner, { name: 'bytes', address: address(23), port: BACKEND_PORT });
  const near = await startTcpEcho(owner, { name: 'near', address: address(26), port: BACKEND_PORT });
  const certificates = join(import.meta.dirname, '../golden-harness/certs');
  const key = readFileSync(join(certificates, 'tls.key'));
  const cert = readFileSync(join(certificates, 'tls.crt'));
  for (const [index, name] of ['secret-a', 'secret-b'].entries()) {
    const server = createServer({ key, cert }, (socket) => {
      socket.on('error', () => socket.destroy());
      socket.end(`${name}\n`);
    });
    await new Promise<void>((resolve) => server.listen(BACKEND_PORT, address(24 + index), resolve));
    owner.after(() => void server.close());
  }
  const started = await startMesh(owner, address, {
    files: {
      services: [
        ...backend('a', a.address, a.port, 'http'),
        ...backend('b', b.address, b.port, 'http'),
        ...backend('bytes', bytes.address, bytes.port, 'tcp'),
        ...backend('near', near.address, near.port, 'tcp'),
        ...backend('secret-a', address(24), BACKEND_PORT, 'tls'),
        ...backend('secret-b', address(25), BACKEND_PORT, 'tls'),
      ],
    },
  });
  const gateways = await Promise.all(
    MODES.map((mode, index) =>
      started.startProxy({ name: `gateway-${mode}`, type: 'router', mode, address: address(10 + index) }),
    ),
  );
  shared.set({ ...started, gateways });
});

afterEach(async () => {
  for (const name of ['gateway', 'second', 'routes'])
    await mesh()
      .config.remove(name)
      .catch(() => undefined);
  // A port without a server is closed.
  await eventually(async (proxy) => {
    for (const port of [HTTP, TCP, TLS])
      await assert.rejects(call({ address: proxy.address, port }), /ECONNREFUSED|ECONNRESET/);
  });
});

test('a gateway opens its port, returns HTTP 404 until a route is bound, and closes the port again', async () => {
  const { config } = mesh();
  await config.apply('gateway', ...gateway('front', [http(['*'])]));
  await eventually(async (proxy) => assert.equal((await call(at(proxy, 'a.example'))).status, 404));
  await config.apply(
    'routes',
    resource('VirtualService', 'a', { hosts: ['a.example'], gateways: through('front'), http: routeTo('a') }),
  );
  await eventually(async (proxy) => {
    assert.equal((await call(at(proxy, 'a.example'))).by, 'a');
    assert.equal((await call(at(proxy, 'b.example'))).status, 404);
  });
  await config.apply(
    'routes',
    resource('VirtualService', 'a', { hosts: ['*'], gateways: through('front'), http: routeTo('b') }),
  );
  await eventually(async (proxy) => assert.equal((await call(at(proxy, 'a.example'))).by, 'b'));
});

test('servers of two Gateway resources share a port, each with its hosts and its routes', async () => {
  const { config } = mesh();
  await config.apply('gateway', ...gateway('first', [http(['a.example'])]));
  await config.apply('second', ...gateway('second', [http(['*.b.example'])], 'other'));
  await config.apply(
    'routes',
    resource('VirtualService', 'a', { hosts: ['a.example'], gateways: through('first'), http: routeTo('a') }),
    resource(
      'VirtualService',
      'b',
      { hosts: ['x.b.example'], gateways: through('second', 'other'), http: routeTo('b') },
      'other',
    ),
    // Bound to a gateway without this host: never served.
    resource('VirtualService', 'c', { hosts: ['c.example'], gateways: through('first'), http: routeTo('a') }),
  );
  await eventually(async (proxy) => {
    assert.equal((await call(at(proxy, 'a.example'))).by, 'a');
    assert.equal((await call(at(proxy, 'x.b.example'))).by, 'b');
    assert.equal((await call(at(proxy, 'y.b.example'))).status, 404);
    assert.equal((await call(at(proxy, 'c.example'))).status, 404);
  });
  await config.remove('second');
  await eventually(async (proxy) => {
    assert.equal((await call(at(proxy, 'x.b.example'))).status, 404);
    assert.equal((await call(at(proxy, 'a.example'))).by, 'a');
  });
});

test('a server can restrict the namespaces of its virtual services', async () => {
  const { config } = mesh();
  const hosts = ['default/own.example', './same.example', 'other/theirs.example', '*/any.example'];
  await config.apply('gateway', ...gateway('front', [http(hosts)]));
  const names = ['own', 'same', 'theirs', 'any'];
  const routes = (namespace: string, to: string) =>
    names.map((name) =>
      resource(
        'VirtualService',
        name,
        { hosts: [`${name}.example`], gateways: through('front'), http: routeTo(to) },
        namespace,
      ),
    );
  const answers = async (proxy: MeshProxy) =>
    Promise.all(names.map(async (name) => (await call(at(proxy, `${name}.example`))).by ?? 'nobody'));
  await config.apply('routes', ...routes('default', 'a'));
  await eventually(async (proxy) => assert.deepEqual(await answers(proxy), ['a', 'a', 'nobody', 'a']));
  // The routes of several virtual services for one host are concatenated, the oldest first, then by namespace.
  await config.apply('routes', ...routes('default', 'a'), ...routes('other', 'b'));
  await eventually(async (proxy) => assert.deepEqual(await answers(proxy), ['a', 'a', 'b', 'a']));
  await config.apply('routes', ...routes('other', 'b'));
  await eventually(async (proxy) => assert.deepEqual(await answers(proxy), ['nobody', 'nobody', 'b', 'b']));
});

test('the first of two servers with different protocols on one port is kept, and the other is reported', async () => {
  const { config } = mesh();
  const https = {
    hosts: ['*'],
    port: { number: HTTP, name: 'https', protocol: 'HTTPS' },
    tls: { mode: 'SIMPLE', serverCertificate: '/none', privateKey: '/none' },
  };
  await config.apply('gateway', ...gateway('front', [http(['*']), https]));
  await config.apply(
    'routes',
    resource('VirtualService', 'a', { hosts: ['*'], gateways: through('front'), http: routeTo('a') }),
  );
  await eventually(async (proxy) => assert.equal((await call(at(proxy, 'x'))).by, 'a'));
  const { body } = await mesh().discovery().http('/debug/push_status');
  assert.match(body, /server https: port 7080 already serves http of Gateway default\/front/);
});

test('routes of a gateway match, weigh and rewrite like those of sidecars', async () => {
  const { config } = mesh();
  const [toA, toB] = ['a', 'b'].map((host) => ({ destination: { host: `${host}.default.svc.cluster.local` } }));
  await config.apply('gateway', ...gateway('front', [http(['*'])]));
  await config.apply(
    'routes',
    resource('VirtualService', 'all', {
      hosts: ['*'],
      gateways: through('front'),
      http: [
        { match: [{ uri: { prefix: '/api/' } }], rewrite: { uri: '/' }, route: [toB] },
        {
          match: [{ uri: { exact: '/split' } }],
          route: [
            { ...toA, weight: 50 },
            { ...toB, weight: 50 },
          ],
        },
        { route: [toA] },
      ],
    }),
  );
  await eventually(async (proxy) => {
    const api = await call(at(proxy, 'x', '/api/items'));
    assert.deepEqual([api.by, api.reply?.path], ['b', '/items']);
    assert.equal((await call(at(proxy, 'x'))).by, 'a');
    assert.deepEqual(Object.keys(await tally(at(proxy, 'x', '/split'), 30)).sort(), ['a', 'b']);
  });
});

test('a server that redirects to HTTPS does so for its own hosts only', async () => {
  const { config } = mesh();
  await config.apply(
    'gateway',
    ...gateway('front', [http(['a.example'], { httpsRedirect: true }), http(['b.example'])]),
  );
  await config.apply(
    'routes',
    resource('VirtualService', 'all', {
      hosts: ['a.example', 'b.example'],
      gateways: through('front'),
      http: routeTo('a'),
    }),
  );
  await eventually(async (proxy) => {
    const { status, location } = await call(at(proxy, 'a.example', '/x'));
    assert.deepEqual([status, location], [301, 'https://a.example/x']);
    assert.equal((await call(at(proxy, 'b.example'))).by, 'a');
  });
});

test('TLS is passed through by server name, and an edit moves a name to another service', async () => {
  const { config } = mesh();
  const server = {
    hosts: ['*.example'],
    port: { number: TLS, name: 'tls', protocol: 'TLS' },
    tls: { mode: 'PASSTHROUGH' },
  };
  await config.apply('gateway', ...gateway('front', [server]));
  const route = (name: string, to: string) => ({
    match: [{ port: TLS, sniHosts: [`${name}.example`] }],
    route: [{ destination: { host: `${to}.default.svc.cluster.local`, port: { number: BACKEND_PORT } } }],
  });
  const routes = (aTo: string) =>
    config.apply(
      'routes',
      resource('VirtualService', 'tls', {
        hosts: ['a.example', 'b.example'],
        gateways: through('front'),
        tls: [route('a', aTo), route('b', 'secret-b')],
      }),
    );
  await routes('secret-a');
  await eventually(async (proxy) => {
    assert.equal(await tlsGreeting(proxy.address, TLS, 'a.example'), 'secret-a');
    assert.equal(await tlsGreeting(proxy.address, TLS, 'b.example'), 'secret-b');
    await assert.rejects(tlsGreeting(proxy.address, TLS, 'c.example'));
  });
  await routes('secret-b');
  await eventually(async (proxy) => assert.equal(await tlsGreeting(proxy.address, TLS, 'a.example'), 'secret-b'));
});

test('a TCP server forwards its connections to the routed service, which may depend on the client', async () => {
  const { config } = mesh();
  await config.apply(
    'gateway',
    ...gateway('front', [{ hosts: ['*'], port: { number: TCP, name: 'tcp', protocol: 'TCP' } }]),
  );
  const destination = { host: 'bytes.default.svc.cluster.local', port: { number: BACKEND_PORT } };
  const near = { host: 'near.default.svc.cluster.local', port: { number: BACKEND_PORT } };
  const toNear = { match: [{ port: TCP, sourceSubnet: `${address(27)}/32` }], route: [{ destination: near }] };
  const routes = (...tcp: readonly object[]) =>
    config.apply('routes', resource('VirtualService', 'tcp', { hosts: ['*'], gateways: through('front'), tcp }));
  await routes(toNear, { match: [{ port: TCP }], route: [{ destination }] });
  await eventually(async (proxy) => {
    assert.equal(await greeting(proxy.address, TCP), 'bytes');
    assert.equal(await greeting(proxy.address, TCP, address(28)), 'bytes');
    assert.equal(await greeting(proxy.address, TCP, address(27)), 'near');
  });
  // Clients without a route are refused, not sent along the route of others.
  await routes(toNear);
  await eventually(async (proxy) => {
    await assert.rejects(greeting(proxy.address, TCP, address(28)));
    assert.equal(await greeting(proxy.address, TCP, address(27)), 'near');
  });
});

test('a gateway with a certificate terminates TLS and forwards HTTP', async () => {
  const { config } = mesh();
  const certificates = join(import.meta.dirname, '../golden-harness/certs');
  const tls = {
    mode: 'SIMPLE',
    serverCertificate: join(certificates, 'tls.crt'),
    privateKey: join(certificates, 'tls.key'),
  };
  await config.apply(
    'gateway',
    ...gateway('front', [
      { hosts: ['golden.example.com'], port: { number: TLS, name: 'https', protocol: 'HTTPS' }, tls },
    ]),
  );
  await config.apply(
    'routes',
    resource('VirtualService', 'https', {
      hosts: ['golden.example.com'],
      gateways: through('front'),
      http: routeTo('a'),
    }),
  );
  const get = (proxy: MeshProxy) =>
    new Promise<string | undefined>((resolve, reject) => {
      const outgoing = httpsRequest({
        agent: false,
        host: proxy.address,
        port: TLS,
        servername: 'golden.example.com',
        headers: { host: 'golden.example.com' },
        ca: readFileSync(join(certificates, 'ca.crt')),
      });
      outgoing.once('error', reject);
      outgoing.once('response', (response) => {
        response.resume();
        resolve(String(response.headers['x-echo']));
      });
      outgoing.end();
    });
  await eventually(async (proxy) => assert.equal(await get(proxy), 'a'));
});

test('the older of two gateways with servers that cannot share a port gets it, and the other is a conflict', async () => {
  const { config, discovery } = mesh();
  await config.apply('gateway', ...gateway('first', [http(['*'])]));
  await config.apply(
    'second',
    ...gateway('second', [{ hosts: ['*'], port: { number: HTTP, name: 'tcp', protocol: 'TCP' } }]),
  );
  await config.apply(
    'routes',
    resource('VirtualService', 'a', { hosts: ['*'], gateways: through('first'), http: routeTo('a') }),
  );
  await eventually(async (proxy) => assert.equal((await call(at(proxy, 'a.example'))).by, 'a'));
  await retry(async () => {
    const { body } = await discovery().http('/debug/push_status');
    assert.match(body, /ctl_conflict_outbound_listener_tcp_over_current_http/);
  });
});
