/**
 * Settings of DestinationRules about connections and retries, and those of an Envoy's own node metadata, in the traffic
 * of real Envoys.
 *
 *   program ─▶ Envoy of the mesh ─▶ server
 *                     └─▶ Envoy as HTTP proxy (CONNECT) ─▶ server
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { ListenOptions, Server } from 'node:net';
import { before, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import type { JsonObject } from '../../src/protobuf/index.ts';
import { type Echo, eventually, exchange, request, startEnvoy, startTcpEcho } from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import { foreignRoot, signedBy } from './support/foreign-certificate.ts';
import { type MeshProxy, planMesh, sidecar, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const TCP_PORT = 7490;
const PROXY_PORT = 7491;
const TWO_PORT = 7492;
/** Routed to the HTTP proxy's port as HTTP/2. */
const THROUGH_PORT = 7493;
const HTTP2_PORT = 7494;
const RETRIED_PORT = 7495;
const TLS_PORT = 7496;
const TYPES = 'type.googleapis.com/envoy.extensions.filters';
/** What the HTTP proxy is asked for. */
const TARGET = { targetHost: 'db.example', targetPort: 5432 };

const owner = suiteOwner();
const shared = lazy<TestMesh & { readonly client: MeshProxy; readonly asking: MeshProxy; readonly near: Echo }>();

/** @param endpoints labels by address */
function entry(
  name: string,
  port: number,
  endpoints: Readonly<Record<string, object>>,
  ofPort: { readonly protocol: string; readonly targetPort?: number } = { protocol: 'TCP' },
): Document {
  return resource('ServiceEntry', name, {
    hosts: [`${name}.example`],
    resolution: 'STATIC',
    location: 'MESH_EXTERNAL',
    ports: [{ number: port, name: 'port', ...ofPort }],
    endpoints: Object.entries(endpoints).map(([address, labels]) => ({ address, labels })),
  });
}

/** An HTTP proxy that connects only to the target. */
function connectProxy(address: string, server: string): { clusters: JsonObject[]; listeners: JsonObject[] } {
  const at = (ip: string, port: number) => ({ address: { socket_address: { address: ip, port_value: port } } });
  const route = {
    match: { connect_matcher: {} },
    route: { cluster: 'server', upgrade_configs: [{ upgrade_type: 'CONNECT', connect_config: {} }] },
  };
  const manager = {
    '@type': `${TYPES}.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: 'proxy',
    http2_protocol_options: { allow_connect: true },
    upgrade_configs: [{ upgrade_type: 'CONNECT' }],
    route_config: {
      virtual_hosts: [{ name: 'target', domains: [`${TARGET.targetHost}:${TARGET.targetPort}`], routes: [route] }],
    },
    http_filters: [{ name: 'router', typed_config: { '@type': `${TYPES}.http.router.v3.Router` } }],
  };
  return {
    clusters: [
      {
        name: 'server',
        type: 'STATIC',
        load_assignment: {
          cluster_name: 'server',
          endpoints: [{ lb_endpoints: [{ endpoint: at(server, TCP_PORT) }] }],
        },
      },
    ],
    listeners: [
      {
        name: 'proxy',
        ...at(address, PROXY_PORT),
        filter_chains: [{ filters: [{ name: 'manager', typed_config: manager }] }],
      },
    ],
  };
}

/** Requests that were sent again, and their responses, which wait for the test. */
const retried: (() => void)[] = [];

async function listen(server: Server, at: ListenOptions): Promise<void> {
  await new Promise<void>((resolve) => server.listen(at, resolve));
  owner.after(() => void server.close());
}

/** Fails each path once, except `/ready`. */
async function startFailing(host: string): Promise<void> {
  const failed = new Set<string>();
  const server = createServer(({ url = '' }, response) => {
    if (url === '/ready') response.end();
    else if (failed.has(url)) retried.push(() => response.end('at last'));
    else response.writeHead(503).end();
    failed.add(url);
  });
  await listen(server, { host, port: RETRIED_PORT });
}

/** Tells the name in a client's certificate. Resolves with the files of a client, as node metadata. */
async function startTlsServer(host: string): Promise<JsonObject> {
  const root = await foreignRoot(owner);
  const [own, ann] = await Promise.all([
    signedBy(owner, root, 'DNS:tls.example'),
    signedBy(owner, root, 'DNS:ann.example'),
  ]);
  const [cert, key, ca] = await Promise.all([own.certificate, own.key, root.certificate].map((file) => readFile(file)));
  const server = createTlsServer({ cert, key, ca, requestCert: true }, ({ socket }, response) => {
    response.end(`hello ${(socket as TLSSocket).getPeerCertificate().subjectaltname}`);
  });
  await listen(server, { host, port: TLS_PORT });
  return {
    TLS_CLIENT_CERT_CHAIN: ann.certificate,
    TLS_CLIENT_KEY: ann.key,
    TLS_CLIENT_ROOT_CERT: root.certificate,
  };
}

before(async () => {
  const address = planMesh();
  await startTcpEcho(owner, { name: 'server', address: address(21), port: TCP_PORT });
  const near = await startTcpEcho(owner, { name: 'near', address: address(23), port: TWO_PORT });
  await startTcpEcho(owner, { name: 'far', address: address(24), port: TWO_PORT });
  const clientFiles = await startTlsServer(address(25));
  await startFailing(address(26));
  const staticResources = connectProxy(address(22), address(21));
  const egress = [
    ...[TCP_PORT, PROXY_PORT, TWO_PORT, THROUGH_PORT].map((number) => ({ number, protocol: 'TCP' as const })),
    { number: RETRIED_PORT, protocol: 'HTTP' as const },
  ];
  const [mesh] = await Promise.all([
    startMesh(owner, address, {
      files: {
        client: [
          sidecar('client', { address: address(10), egress }),
          sidecar('asking', { address: address(11), egress: [{ number: TLS_PORT, protocol: 'HTTP' }] }),
        ],
        server: [
          entry('server', TCP_PORT, { [address(21)]: {} }),
          entry('proxy', PROXY_PORT, { [address(22)]: {} }),
          entry('two', TWO_PORT, { [address(23)]: { rack: 'a' }, [address(24)]: { rack: 'b' } }),
          entry('through', THROUGH_PORT, { [address(22)]: {} }),
          entry('http2', HTTP2_PORT, { [address(22)]: {} }, { protocol: 'HTTP2', targetPort: PROXY_PORT }),
          resource('VirtualService', 'through', {
            hosts: ['through.example'],
            tcp: [{ route: [{ destination: { host: 'http2.example', port: { number: HTTP2_PORT } } }] }],
          }),
          entry('retried', RETRIED_PORT, { [address(26)]: {} }, { protocol: 'HTTP' }),
          resource('VirtualService', 'retried', {
            hosts: ['retried.example'],
            http: [
              {
                route: [{ destination: { host: 'retried.example' } }],
                retries: { attempts: 1, retryOn: '5xx' },
              },
            ],
          }),
          entry('tls', TLS_PORT, { [address(25)]: {} }, { protocol: 'HTTP' }),
          resource('DestinationRule', 'tls', {
            host: 'tls.example',
            workloadSelector: { matchLabels: { app: 'asking' } },
            trafficPolicy: {
              tls: {
                mode: 'MUTUAL',
                clientCertificate: '/none.pem',
                privateKey: '/none.key',
                caCertificates: '/none.pem',
              },
            },
          }),
        ],
      },
    }),
    startEnvoy(owner, { id: 'sidecar~1.1.1.1~proxy.none~none.svc.cluster.local', staticResources }),
  ]);
  const [client, asking] = await Promise.all([
    mesh.startProxy({ name: 'client', mode: 'delta', address: address(10), labels: { app: 'client', rack: 'a' } }),
    mesh.startProxy({
      name: 'asking',
      mode: 'sotw',
      address: address(11),
      labels: { app: 'asking' },
      metadata: { ...clientFiles, IDLE_TIMEOUT: '300ms' },
    }),
  ]);
  shared.set({ ...mesh, client, asking, near });
});

async function apply(name: string, trafficPolicy: object): Promise<void> {
  const host = `${name}.example`;
  await shared.get().config.apply(`rule-${name}`, resource('DestinationRule', name, { host, trafficPolicy }));
}

/** What a server that sends back what it receives has received on a connection through the client's Envoy. */
async function received(port: number, send: string): Promise<string> {
  const { client } = shared.get();
  return exchange({ address: client.address, port, send, until: send, timeoutMs: 3000 });
}

test('a server is told the address of the client by the PROXY protocol', async () => {
  await eventually(async () => assert.equal(await received(TCP_PORT, 'plain'), 'server\nplain'));
  await apply('server', { proxyProtocol: { version: 'V1' } });
  await eventually(async () => {
    assert.match(await received(TCP_PORT, 'v1'), /^server\nPROXY TCP4 127\.\S+ 127\.\S+ \d+ 7490\r\nv1$/);
  });
  await apply('server', { proxyProtocol: { version: 'V2' } });
  await eventually(async () => {
    assert.ok((await received(TCP_PORT, 'v2')).startsWith('server\n\r\n\r\n\0\r\nQUIT\n'));
  });
});

test('connections are tunnelled through an HTTP proxy, which connects to the target', async () => {
  await apply('proxy', { tunnel: TARGET });
  await eventually(async () => assert.equal(await received(PROXY_PORT, 'inside'), 'server\ninside'));
  // The proxy has no route to any other target.
  await apply('proxy', { tunnel: { ...TARGET, targetPort: 5433 } });
  await eventually(() => assert.rejects(received(PROXY_PORT, 'inside')));
});

test('a tunnel works over HTTP/2 too, where the port of the HTTP proxy has this protocol', async () => {
  await apply('http2', { tunnel: TARGET });
  await eventually(async () => assert.equal(await received(THROUGH_PORT, 'inside'), 'server\ninside'));
});

test('a retry budget limits the requests that are sent again at the same time', async () => {
  const { client } = shared.get();
  const get = (path: string) =>
    request({ address: client.address, port: RETRIED_PORT, path, headers: { host: 'retried.example' } });
  let count = 0;
  /** Two failed requests, the second one while the first is sent again. */
  const both = async (): Promise<number[]> => {
    const [one, other] = [`/${++count}`, `/${++count}`];
    const first = get(one);
    await eventually(() => assert.equal(retried.length, 1));
    let ended = false;
    const second = get(other).finally(() => {
      ended = true;
    });
    // Either it is sent again, or it fails.
    await eventually(() => assert.ok(ended || retried.length === 2));
    for (const respond of retried.splice(0)) respond();
    return (await Promise.all([first, second])).map(({ status }) => status);
  };
  await eventually(async () => assert.equal((await get('/ready')).status, 200));
  assert.deepEqual(await both(), [200, 200]);
  await apply('retried', { retryBudget: { percent: 0, minRetryConcurrency: 1 } });
  await eventually(async () => assert.deepEqual(await both(), [200, 503]));
});

test('an Envoy presents the files of its own metadata, and closes idle connections of its clients', async () => {
  const { asking } = shared.get();
  const send = `GET / HTTP/1.1\r\nhost: tls.example:${TLS_PORT}\r\n\r\n`;
  const closed = exchange({ address: asking.address, port: TLS_PORT, send, until: 'no such end' });
  await assert.rejects(closed, /^Error: closed after .* 200 OK.*hello DNS:ann\.example/);
});

test('endpoints with the labels of the client are preferred until they fail', async () => {
  const servers = async () => {
    const all = await Promise.all(Array.from({ length: 8 }, () => received(TWO_PORT, 'x')));
    return [...new Set(all.map((text) => text.split('\n')[0]))].sort();
  };
  await eventually(async () => assert.deepEqual(await servers(), ['far', 'near']));
  await apply('two', {
    loadBalancer: { localityLbSetting: { failoverPriority: ['rack'] } },
    outlierDetection: { consecutive5xxErrors: 1, baseEjectionTime: '600s' },
  });
  await eventually(async () => assert.deepEqual(await servers(), ['near']));
  await shared.get().near.stop();
  await eventually(async () => assert.deepEqual(await servers(), ['far']));
});

test('a rule for other workloads changes nothing, and acts once it selects the client', async () => {
  const rule = (rack: string) =>
    resource('DestinationRule', 'server', {
      host: 'server.example',
      workloadSelector: { matchLabels: { rack } },
      trafficPolicy: { proxyProtocol: { version: 'V1' } },
    });
  const { config } = shared.get();
  await config.apply('rule-server', rule('a'));
  await eventually(async () => assert.match(await received(TCP_PORT, 'mine'), /PROXY/));
  await config.apply('rule-server', rule('b'));
  await eventually(async () => assert.equal(await received(TCP_PORT, 'plain'), 'server\nplain'));
});
