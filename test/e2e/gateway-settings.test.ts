/**
 * Settings of discovery that change the configuration of gateways: each in its own mesh, with real Envoys of both
 * protocols.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { type EchoReply, startEcho } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { type MeshProxy, MODES, planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { call, eventuallyAll } from './support/traffic.ts';

const BACKEND = 7482;
const HTTP = 7082;
const SERVICES = ['one', 'two', 'three'];

interface World {
  readonly mesh: TestMesh;
  readonly gateways: readonly MeshProxy[];
  /** A Gateway of a namespace for both proxies, which have different addresses. */
  gatewaysOf(namespace: string): Document[];
}

/** Two gateways in namespace `default`, and three services that are one backend. */
async function start(t: TestContext, env: Readonly<Record<string, string>>): Promise<World> {
  const address = planMesh();
  const backend = await startEcho(t, { name: 'backend', address: address(21), port: BACKEND });
  const services = SERVICES.flatMap((name) => [
    service(name, { ports: [{ name: 'http', port: BACKEND }] }),
    endpoints(name, [backend.address], [{ name: 'http', port: BACKEND }]),
  ]);
  const mesh = await startMesh(t, address, { env, files: { services } });
  const gateways = await Promise.all(
    MODES.map((mode, index) =>
      mesh.startProxy({ name: `gateway-${mode}`, type: 'router', mode, address: address(10 + index) }),
    ),
  );
  const gatewaysOf = (namespace: string) =>
    gateways.map((proxy) => {
      const port = { number: HTTP, name: 'http', protocol: 'HTTP' };
      const spec = { selector: { app: proxy.name }, servers: [{ port, hosts: ['*'], bind: proxy.address }] };
      return resource('Gateway', proxy.name, spec, namespace);
    });
  return { mesh, gateways, gatewaysOf };
}

const hostOf = (name: string) => `${name}.default.svc.cluster.local`;

/** Routes of a namespace's gateways: requests for `<name>.example` to the service of that name, mirrored to another. */
function routes({ gateways }: World, namespace: string, to: Readonly<Record<string, string | undefined>>): Document[] {
  return Object.entries(to).map(([name, mirror]) =>
    resource(
      'VirtualService',
      name,
      {
        hosts: [`${name}.example`],
        gateways: gateways.map((proxy) => proxy.name),
        http: [
          {
            route: [{ destination: { host: hostOf(name) } }],
            ...(mirror === undefined ? {} : { mirror: { host: hostOf(mirror) } }),
          },
        ],
      },
      namespace,
    ),
  );
}

const at = (proxy: MeshProxy, name: string) => ({ address: proxy.address, port: HTTP, host: `${name}.example` });

/** Services that an Envoy has clusters of. */
async function clusters(proxy: MeshProxy): Promise<readonly string[]> {
  const text = await proxy.admin('/clusters');
  return SERVICES.filter((name) => text.includes(`outbound|${BACKEND}||${hostOf(name)}::`));
}

test('CTL_FILTER_GATEWAY_CLUSTER_CONFIG limits the clusters of a gateway to those of its routes', async (t) => {
  const [all, filtered] = await Promise.all([start(t, {}), start(t, { CTL_FILTER_GATEWAY_CLUSTER_CONFIG: 'true' })]);
  for (const world of [all, filtered]) {
    await world.mesh.config.apply('gateway', ...world.gatewaysOf('default'));
    await world.mesh.config.apply('routes', ...routes(world, 'default', { one: undefined }));
    await eventuallyAll(world.gateways, async (proxy) => assert.equal((await call(at(proxy, 'one'))).by, 'backend'));
  }
  for (const proxy of all.gateways) assert.deepEqual(await clusters(proxy), SERVICES);
  for (const proxy of filtered.gateways) assert.deepEqual(await clusters(proxy), ['one']);
  // An edit adds the clusters of its routes and mirrors, and removes those that no route uses any longer.
  await filtered.mesh.config.apply('routes', ...routes(filtered, 'default', { two: 'three' }));
  await eventuallyAll(filtered.gateways, async (proxy) => {
    assert.equal((await call(at(proxy, 'two'))).by, 'backend');
    assert.deepEqual(await clusters(proxy), ['two', 'three']);
  });
});

test('a gateway follows Gateways of any namespace, with CTL_SCOPE_GATEWAY_TO_NAMESPACE only of its own', async (t) => {
  const [all, scoped] = await Promise.all([start(t, {}), start(t, { CTL_SCOPE_GATEWAY_TO_NAMESPACE: 'true' })]);
  for (const world of [all, scoped]) {
    await world.mesh.config.apply('gateway', ...world.gatewaysOf('elsewhere'));
    await world.mesh.config.apply('routes', ...routes(world, 'elsewhere', { one: undefined }));
  }
  await eventuallyAll(all.gateways, async (proxy) => assert.equal((await call(at(proxy, 'one'))).by, 'backend'));
  for (const proxy of scoped.gateways) await assert.rejects(call(at(proxy, 'one')), /ECONNREFUSED/);
  await scoped.mesh.config.apply(
    'own',
    ...scoped.gatewaysOf('default'),
    ...routes(scoped, 'default', { two: undefined }),
  );
  await eventuallyAll(scoped.gateways, async (proxy) => {
    assert.equal((await call(at(proxy, 'two'))).by, 'backend');
    // Routes that are bound to the Gateway of the other namespace are not served.
    assert.equal((await call(at(proxy, 'one'))).status, 404);
  });
});

test('a gateway is served as its node metadata asks: HTTP/1.0, PROXY protocol, trusted proxies', async (t) => {
  const address = planMesh();
  const backend = await startEcho(t, { name: 'backend', address: address(21), port: BACKEND });
  const ports = [{ name: 'http', port: BACKEND }];
  const services = [service('one', { ports }), endpoints('one', [backend.address], ports)];
  const mesh = await startMesh(t, address, { files: { services } });
  const gatewayTopology = { numTrustedProxies: 1, proxyProtocol: {} };
  // Without the version the bootstrap would be that of Istio's agent.
  const metadata = { MESH_VERSION: '1.0', HTTP10: '1', PROXY_CONFIG: { gatewayTopology } };
  const start = { name: 'asking', type: 'router', mode: 'delta', address: address(10), metadata } as const;
  const gateway = await mesh.startProxy(start);
  const servers = [{ port: { number: HTTP, name: 'http', protocol: 'HTTP' }, hosts: ['*'], bind: gateway.address }];
  const route = { hosts: ['*'], gateways: ['asking'], http: [{ route: [{ destination: { host: hostOf('one') } }] }] };
  await mesh.config.apply(
    'gateway',
    resource('Gateway', 'asking', { selector: { app: 'asking' }, servers }, 'default'),
    resource('VirtualService', 'asking', route, 'default'),
  );
  const said = async (beginning: string): Promise<string> => {
    const socket = connect(HTTP, gateway.address);
    // Answers of HTTP/1.0 end with the connection.
    socket.write(`${beginning}GET / HTTP/1.0\r\nHost: one.example\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n`);
    return await text(socket);
  };
  await eventuallyAll([gateway], async () => {
    const answer = await said('PROXY TCP4 203.0.113.9 203.0.113.1 4000 80\r\n');
    assert.match(answer, /^HTTP\/1\.[01] 200 /);
    const reply = JSON.parse(answer.slice(answer.indexOf('{'))) as EchoReply;
    // The address of the PROXY header is that of the trusted proxy, which says who the client is.
    assert.equal(reply.headers['x-forwarded-for'], '198.51.100.7,203.0.113.9');
    assert.equal(reply.headers['x-envoy-external-address'], '198.51.100.7');
  });
  // Without the header, connections are closed.
  assert.equal(await said('').catch(() => ''), '');
});
