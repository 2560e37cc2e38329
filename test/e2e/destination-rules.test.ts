/**
 * Settings of DestinationRules about connections, in the traffic of a real Envoy.
 *
 *   program ─▶ Envoy of the mesh ─▶ server
 *                     └─▶ Envoy as HTTP proxy (CONNECT) ─▶ server
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { JsonObject } from '../../src/protobuf/index.ts';
import { type Echo, eventually, exchange, startEnvoy, startTcpEcho } from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import { type MeshProxy, planMesh, sidecar, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const TCP_PORT = 7490;
const PROXY_PORT = 7491;
const TWO_PORT = 7492;
const TYPES = 'type.googleapis.com/envoy.extensions.filters';
/** What the HTTP proxy is asked for. */
const TARGET = { targetHost: 'db.example', targetPort: 5432 };

const owner = suiteOwner();
const shared = lazy<TestMesh & { readonly client: MeshProxy; readonly near: Echo }>();

/** @param endpoints labels by address */
function entry(name: string, port: number, endpoints: Readonly<Record<string, object>>): Document {
  return resource('ServiceEntry', name, {
    hosts: [`${name}.example`],
    resolution: 'STATIC',
    location: 'MESH_EXTERNAL',
    ports: [{ number: port, name: 'tcp', protocol: 'TCP' }],
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

before(async () => {
  const address = planMesh();
  await startTcpEcho(owner, { name: 'server', address: address(21), port: TCP_PORT });
  const near = await startTcpEcho(owner, { name: 'near', address: address(23), port: TWO_PORT });
  await startTcpEcho(owner, { name: 'far', address: address(24), port: TWO_PORT });
  const staticResources = connectProxy(address(22), address(21));
  const egress = [TCP_PORT, PROXY_PORT, TWO_PORT].map((number) => ({ number, protocol: 'TCP' as const }));
  const [mesh] = await Promise.all([
    startMesh(owner, address, {
      files: {
        client: [sidecar('client', { address: address(10), egress })],
        server: [
          entry('server', TCP_PORT, { [address(21)]: {} }),
          entry('proxy', PROXY_PORT, { [address(22)]: {} }),
          entry('two', TWO_PORT, { [address(23)]: { rack: 'a' }, [address(24)]: { rack: 'b' } }),
        ],
      },
    }),
    startEnvoy(owner, { id: 'sidecar~1.1.1.1~proxy.none~none.svc.cluster.local', staticResources }),
  ]);
  const client = await mesh.startProxy({
    name: 'client',
    mode: 'delta',
    address: address(10),
    labels: { app: 'client', rack: 'a' },
  });
  shared.set({ ...mesh, client, near });
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
