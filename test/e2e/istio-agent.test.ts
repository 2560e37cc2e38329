/**
 * Proxies of Istio's `pilot-agent`: node metadata and static clusters of its bootstrap (release 1.7 and the current
 * one). They get mutual TLS with certificates from their agent. An Envoy that does not report an agent gets plain text.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, test } from 'node:test';
import type { JsonObject } from '../../src/protobuf/index.ts';
import { type Envoy, eventually, startEnvoy, tempDir } from '../harness/index.ts';
import { endpoints, resource, service } from './support/config.ts';
import { MODES, planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { NameAgent } from './support/name-agent.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const PORT = 7550;

const owner = suiteOwner();
const mesh = lazy<TestMesh>();
const address = planMesh();
const ADDRESS = address(10);
const CLUSTER = `outbound|${PORT}||web.default.svc.cluster.local`;

before(async () => {
  const ports = [{ name: 'http', port: PORT }];
  const web = [service('web', { ports }), endpoints('web', [ADDRESS], ports)];
  mesh.set(await startMesh(owner, address, { files: { web } }));
});

/** The cluster of the agent in Istio's bootstrap. Nothing listens there, as before the agent has started. */
async function agentCluster(): Promise<JsonObject> {
  const path = join(await tempDir(owner), 'socket');
  return {
    name: 'sds-grpc',
    type: 'STATIC',
    connect_timeout: '1s',
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
        explicit_http_config: { http2_protocol_options: {} },
      },
    },
    load_assignment: {
      cluster_name: 'sds-grpc',
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path } } } }] }],
    },
  };
}

/**
 * Starts a proxy, waits until it has the cluster of the service, and returns whether that cluster gets its certificates
 * from the agent.
 */
async function isCertified(metadata: JsonObject, clusters: readonly JsonObject[]): Promise<boolean> {
  const proxy: Envoy = await startEnvoy(owner, {
    id: `sidecar~${ADDRESS}~web.default~default.svc.cluster.local`,
    metadata: { NAMESPACE: 'default', LABELS: { app: 'web' }, INTERCEPTION_MODE: 'NONE', ...metadata },
    staticResources: { clusters },
    adsPort: mesh.get().discovery().ports.grpc,
    // It accepts listeners once it has its certificates.
    waitLive: false,
  });
  const text = await eventually(async () => {
    const { configs } = await proxy.configDump();
    const sent = configs.flatMap((each) =>
      [each.dynamic_active_clusters ?? [], each.dynamic_warming_clusters ?? []].flat(),
    );
    const found = sent.map((cluster) => JSON.stringify(cluster)).find((cluster) => cluster.includes(CLUSTER));
    assert.ok(found !== undefined, `no cluster ${CLUSTER}`);
    return found;
  });
  const { 'cluster_manager.cds.update_rejected': rejected } = await proxy.stats('cds.update_rejected$');
  assert.equal(rejected, 0);
  await proxy.stop();
  const asks = ['"name":"default"', '"name":"ROOTCA"', '"cluster_name":"sds-grpc"'].map((part) => text.includes(part));
  assert.equal(new Set(asks).size, 1, text);
  // The agent of Istio 1.7 reads the node of each request, and crashes without it.
  assert.ok(!text.includes('set_node_on_first_message_only'), text);
  return asks[0] === true;
}

const ISTIO_1_7 = {
  ISTIO_VERSION: '1.7.1',
  ISTIO_PROXY_SHA: 'istio-proxy:262253d9d066f8ef7ed82fd175c28b8f95acbec0',
  PROXY_CONFIG: { binaryPath: '/usr/local/bin/envoy', discoveryAddress: 'istiod.istio-system.svc:15012' },
  SDS: 'true',
};

test("a proxy of Istio's agent uses mutual TLS with the certificates of that agent", async () => {
  const clusters = [await agentCluster()];
  assert.equal(await isCertified(ISTIO_1_7, clusters), true);
  const { PROXY_CONFIG } = ISTIO_1_7;
  assert.equal(await isCertified({ ISTIO_VERSION: '1.26.0', PROXY_CONFIG }, clusters), true);
});

test('an Envoy that does not report an agent gets no mutual TLS', async () => {
  assert.equal(await isCertified({ ISTIO_VERSION: '1.7.1' }, []), false);
});

test("Istio's agent with DNS capture is sent the name table again when a name changes, and one that merges a piece", async () => {
  const ports = [{ name: 'http', port: PORT }];
  const metadata = { ...ISTIO_1_7, ISTIO_VERSION: '1.26.0', DNS_CAPTURE: 'true' };
  const port = mesh.get().discovery().ports.grpc;
  const agents = MODES.map((mode) => new NameAgent({ mode, port, namespace: 'default', metadata }));
  owner.after(() => {
    for (const agent of agents) agent.close();
  });
  /** The number of tables that each was sent, and the last one. */
  const tables = (count: number, expected: Record<string, string[]>) =>
    eventually(async () => {
      for (const { tables: sent, ended } of agents) {
        assert.equal(ended, undefined);
        assert.equal(sent.length, count);
        assert.deepEqual(sent.at(-1), expected);
      }
    });
  await tables(1, {});
  const api = service('api', { ports, clusterIP: '10.96.0.7' });
  await mesh.get().config.apply('api', api);
  await tables(2, { 'api.default.svc.cluster.local': ['10.96.0.7'] });
  // A rule changes clusters, and no name.
  const rule = { host: 'api', trafficPolicy: { connectionPool: { tcp: { maxConnections: 7 } } } };
  await mesh.get().config.apply('rule', resource('DestinationRule', 'api', rule));
  await mesh.get().config.apply('api', service('api', { ports, clusterIP: '10.96.0.8' }));
  await tables(3, { 'api.default.svc.cluster.local': ['10.96.0.8'] });

  const merging = { ...metadata, NAME_TABLE_PIECES: 'true' };
  const [state, delta] = (['sotw', 'delta'] as const).map((mode) => {
    const agent = new NameAgent({ mode, port, namespace: 'default', metadata: merging });
    agents.push(agent);
    return agent;
  });
  const names = { 'api.default.svc.cluster.local': ['10.96.0.8'], 'web.default.svc.cluster.local': ['10.96.0.9'] };
  const { 'api.default.svc.cluster.local': _, ...web } = names;
  await eventually(() => assert.deepEqual([state?.tables.length, delta?.tables.length], [1, 1]));
  await mesh.get().config.apply('web', service('web', { ports, clusterIP: '10.96.0.9' }));
  await eventually(() => assert.deepEqual(agents[0]?.tables.at(-1), names));
  // Only the piece that changed, for an agent that merges pieces, over Delta.
  await eventually(() => assert.deepEqual([state?.tables.at(-1), delta?.tables.at(-1)], [names, web]));
  assert.deepEqual(delta?.tables[0], { 'api.default.svc.cluster.local': ['10.96.0.8'] });
});
