/**
 * `ctl-discovery` with a real API server as its only source, and a real Envoy: endpoints and routes follow the objects
 * of the cluster, and traffic continues through failures of the API server.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type MeshProxy, sidecar, startProxy } from '../e2e/support/mesh.ts';
import { startTraffic } from '../e2e/support/steady-traffic.ts';
import { tally } from '../e2e/support/traffic.ts';
import {
  createScope,
  type Discovery,
  eventually,
  netnsUnavailable,
  startDiscovery,
  startEcho,
} from '../harness/index.ts';
import {
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? (await netnsUnavailable()) ?? false;
const PORT = 7480;
const [CLIENT, V1, V2] = ['10.244.7.11', '10.244.7.21', '10.244.7.22'] as const;

const service = (name: string, namespace: string) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace },
  spec: { ports: [{ name: 'http', port: PORT, protocol: 'TCP' }] },
});

const slice = (service: string, namespace: string, addresses: readonly string[]) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: `${service}-1`, namespace, labels: { 'kubernetes.io/service-name': service } },
  addressType: 'IPv4',
  ports: [{ name: 'http', port: PORT, protocol: 'TCP' }],
  endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
});

describe('a mesh from a real API server', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  let discovery: Discovery;
  let client: MeshProxy;
  let namespace = '';

  before(async () => {
    cluster = await startKubernetes(owner, { definitions: true });
    namespace = await cluster.newNamespace('shop');
    await startEcho(owner, { name: 'web-v1', address: V1, port: PORT });
    await startEcho(owner, { name: 'web-v2', address: V2, port: PORT });
    const egress = [{ number: PORT, protocol: 'HTTP' }];
    await cluster.api.apply([
      service('web', namespace),
      service('extra', namespace),
      slice('web', namespace, [V1]),
      slice('extra', namespace, [V2]),
      sidecar('client', { address: CLIENT, namespace, egress }),
    ]);
    discovery = await startDiscovery(owner, {
      flags: ['--kubeconfig', await discoveryKubeconfig(owner, cluster)],
      env: { CTL_USE_ENDPOINT_SLICE: 'true', CTL_ENABLE_CRD_VALIDATION: 'true' },
    });
    client = await startProxy(owner, discovery.ports.grpc, {
      name: 'client',
      address: CLIENT,
      mode: 'delta',
      namespace,
    });
  });
  after(() => owner.close());

  const answers = (expected: readonly string[]) =>
    eventually(
      async () => {
        const seen = await tally({ address: client.address, port: PORT, host: 'web' }, 6);
        assert.deepEqual(Object.keys(seen).sort(), expected);
      },
      { timeoutMs: 30_000 },
    );

  test('an Envoy gets its endpoints from EndpointSlices', async () => {
    await answers(['web-v1']);
    await cluster.api.apply([slice('web', namespace, [V1, V2])]);
    await answers(['web-v1', 'web-v2']);
    await cluster.api.apply([slice('web', namespace, [V2])]);
    await answers(['web-v2']);
    await cluster.api.apply([slice('web', namespace, [V1])]);
    await answers(['web-v1']);
  });

  test('an Envoy gets its routes from mesh resources', async () => {
    const route = {
      apiVersion: 'networking.mesh.io/v1alpha3',
      kind: 'VirtualService',
      metadata: { name: 'web', namespace },
      spec: { hosts: ['web'], http: [{ route: [{ destination: { host: 'extra' } }] }] },
    };
    await cluster.api.apply([route]);
    await answers(['web-v2']);
    await cluster.api.delete(route);
    await answers(['web-v1']);
  });

  test('the author of a refused document finds the reason in an Event of the object', async () => {
    const metadata = { name: 'wrong', namespace };
    const rule = { route: [{ destination: { host: 'web' } }], timeout: '-1s' };
    const kind = { apiVersion: 'networking.mesh.io/v1alpha3', kind: 'VirtualService' };
    const [{ metadata: { uid = '' } = {} } = {}] = await cluster.api.apply([
      { ...kind, metadata, spec: { hosts: ['web'], http: [rule] } },
    ]);
    const path = `/api/v1/namespaces/${namespace}/events?fieldSelector=involvedObject.uid=${uid}`;
    await eventually(
      async () => {
        const { items } = await cluster.api.get<{ items: { type: string; reason: string; message: string }[] }>(path);
        const [event, ...more] = items;
        assert.deepEqual([event?.type, event?.reason, more], ['Warning', 'Refused', []]);
        assert.match(event?.message ?? '', /^spec\.http\[0\]\.timeout: expected /);
      },
      { timeoutMs: 30_000 },
    );
    await cluster.api.delete({ ...kind, metadata });
  });

  test('the mesh configuration is read from its ConfigMap when it is created', async () => {
    assert.match(discovery.output(), /ConfigMap mesh-system\/meshd does not exist; the default is in force/);
    const isInEnvoy = (connectTimeout: string) =>
      eventually(
        async () => {
          assert.match(JSON.stringify(await client.configDump()), new RegExp(`"connect_timeout":"${connectTimeout}"`));
        },
        { timeoutMs: 30_000 },
      );
    const configMap = (connectTimeout: string) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'meshd', namespace: 'mesh-system' },
      data: { mesh: `connectTimeout: ${connectTimeout}` },
    });
    await cluster.api.apply([configMap('7s')]);
    await isInEnvoy('7s');
    await cluster.api.delete(configMap('7s'));
    await eventually(() => assert.match(discovery.output(), /meshd was deleted; the last good one stays in force/), {
      timeoutMs: 30_000,
    });
    await isInEnvoy('7s');
    await cluster.api.apply([configMap('8s')]);
    await isInEnvoy('8s');
  });

  test('traffic continues while the API server is killed, restarted and has lost its history', async () => {
    const traffic = startTraffic([{ address: client.address, port: PORT, host: 'web' }]);
    await traffic.more(20);
    await cluster.apiServer.kill();
    await eventually(() => assert.match(discovery.output(), /the API server .* cannot be reached/), {
      timeoutMs: 60_000,
    });
    assert.equal((await discovery.http('/ready')).status, 200);
    await traffic.more(20);
    await cluster.apiServer.start();
    await cluster.api.apply([slice('web', namespace, [V2])]);
    await answers(['web-v2']);
    await cluster.apiServer.kill();
    await cluster.apiServer.start();
    await cluster.compact();
    await cluster.api.apply([slice('web', namespace, [V1])]);
    await answers(['web-v1']);
    await traffic.more(20);
    assert.deepEqual(await traffic.stop(), []);
  });

  test('a restarted ctl-discovery sends a connected Envoy nothing new', async () => {
    const updates = async () => await client.stats('^(cluster_manager.cds|listener_manager.lds).update_success$');
    const version = async () => await client.stats('listener_manager.listener_(added|modified|removed)$');
    const before = await version();
    assert.ok(Object.keys(await updates()).length > 0);
    await discovery.stop();
    const { ports } = discovery;
    discovery = await startDiscovery(owner, {
      flags: ['--kubeconfig', await discoveryKubeconfig(owner, cluster)],
      env: { CTL_USE_ENDPOINT_SLICE: 'true' },
      ports,
    });
    await cluster.api.apply([slice('web', namespace, [V2])]);
    await answers(['web-v2']);
    assert.deepEqual(await version(), before);
  });

  test('ctl-discovery is not ready before it has reached the API server, and ends on SIGTERM', async (t) => {
    await cluster.apiServer.kill();
    const options = { waitReady: false, flags: ['--kubeconfig', await cluster.kubeconfig(owner)] };
    const line = /the API server .* cannot be reached: .*ECONNREFUSED.*; waiting until it can be reached/;
    const startWaiting = async () => {
      const started = await startDiscovery(t, options);
      await eventually(() => assert.match(started.output(), line), { timeoutMs: 60_000 });
      return started;
    };
    assert.equal((await (await startWaiting()).stop()).code, 0);
    const waiting = await startWaiting();
    const { status, body } = await waiting.http('/ready');
    const missing = 'ConfigMap mesh-system/meshd, the certificate authority';
    assert.deepEqual([status, body], [503, `not ready: configuration is being read, waiting for ${missing}\n`]);
    await cluster.apiServer.start();
    await waiting.waitReady();
  });

  test('ctl-discovery without a cluster and without a directory ends with one line', async (t) => {
    const failed = await startDiscovery(t, { waitReady: false, flags: ['--kubeconfig', '/nowhere/kubeconfig'] });
    const { code } = await failed.exited;
    assert.notEqual(code, 0);
    assert.match(failed.output(), /\/nowhere\/kubeconfig: cannot read \/nowhere\/kubeconfig \(ENOENT\)/);
    assert.doesNotMatch(failed.output(), /\n\s+at /);
  });
});
