/**
 * Failures of an API server under traffic: no request through real Envoys fails, routes and endpoints stay in force,
 * and changes that are made during the failure arrive after it.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { type MeshProxy, MODES, sidecar, startProxy } from '../e2e/support/mesh.ts';
import { type SteadyTraffic, startTraffic } from '../e2e/support/steady-traffic.ts';
import { suiteOwner } from '../e2e/support/suite.ts';
import { tally } from '../e2e/support/traffic.ts';
import { type Discovery, eventually, netnsUnavailable, startDiscovery, startEcho, tempDir } from '../harness/index.ts';
import { createApi, type Kubernetes, kubernetesUnavailable, startKubernetes } from '../harness/kubernetes/index.ts';
import { type FaultyProxy, startFaultyProxy } from './support/faulty-proxy.ts';

const skip = kubernetesUnavailable() ?? (await netnsUnavailable()) ?? false;
const PORT = 7490;
const CLIENTS = ['10.244.8.11', '10.244.8.12'] as const;
const [V1, V2] = ['10.244.8.21', '10.244.8.22'] as const;
const DEPLOY = join(import.meta.dirname, '../../deploy');
const RBAC = readFileSync(join(DEPLOY, 'rbac.yaml'), 'utf8');
const ACCOUNT = { namespace: 'mesh-system', name: 'ctl-discovery' };
/** ctl-discovery waits up to 30 s between two attempts after failures. */
const PATIENCE = { timeoutMs: 60_000 };

const service = (name: string, namespace: string) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace },
  spec: { ports: [{ name: 'http', port: PORT, protocol: 'TCP' }] },
});

const slice = (service: string, namespace: string, address: string) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: `${service}-1`, namespace, labels: { 'kubernetes.io/service-name': service } },
  addressType: 'IPv4',
  ports: [{ name: 'http', port: PORT, protocol: 'TCP' }],
  endpoints: [{ addresses: [address], conditions: { ready: true } }],
});

describe('a mesh under traffic', { skip }, () => {
  const owner = suiteOwner();
  let cluster: Kubernetes;
  let proxy: FaultyProxy;
  let discovery: Discovery;
  let clients: readonly MeshProxy[];
  let traffic: SteadyTraffic | undefined;
  let namespace = '';
  let tokenFile = '';

  const route = (target: string) => ({
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'VirtualService',
    metadata: { name: 'web', namespace },
    spec: { hosts: ['web'], http: [{ route: [{ destination: { host: target } }] }] },
  });

  before(async () => {
    cluster = await startKubernetes(owner, { definitions: true });
    proxy = await startFaultyProxy(owner, cluster);
    await cluster.api.apply(RBAC);
    namespace = await cluster.newNamespace('shop');
    await startEcho(owner, { name: 'web-v1', address: V1, port: PORT });
    await startEcho(owner, { name: 'web-v2', address: V2, port: PORT });
    const egress = [{ number: PORT, protocol: 'HTTP' }];
    await cluster.api.apply([
      service('web', namespace),
      service('extra', namespace),
      slice('web', namespace, V1),
      slice('extra', namespace, V2),
      ...CLIENTS.map((address, index) => sidecar(`client-${index}`, { address, namespace, egress })),
    ]);
    const folder = await tempDir(owner);
    tokenFile = join(folder, 'token');
    await writeFile(tokenFile, await cluster.serviceAccountToken(ACCOUNT));
    const [file, certificate] = [join(folder, 'kubeconfig'), Buffer.from(proxy.ca).toString('base64')];
    await writeFile(
      file,
      `current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "${proxy.url}", certificate-authority-data: ${certificate}}}]
users: [{name: me, user: {tokenFile: token}}]
`,
    );
    discovery = await startDiscovery(owner, {
      flags: ['--kubeconfig', file],
      env: { CTL_USE_ENDPOINT_SLICE: 'true' },
    });
    clients = await Promise.all(
      CLIENTS.map((address, index) =>
        startProxy(owner, discovery.ports.grpc, {
          name: `client-${index}`,
          address,
          mode: MODES[index] ?? 'delta',
          namespace,
        }),
      ),
    );
    await served('web-v1');
    traffic = startTraffic(clients.map(({ address }) => ({ address, port: PORT, host: 'web' })));
    owner.after(async () => void (await traffic?.stop()));
  });

  const served = (by: string) =>
    eventually(async () => {
      for (const { address } of clients)
        assert.deepEqual(Object.keys(await tally({ address, port: PORT, host: 'web' }, 3)), [by]);
    }, PATIENCE);
  /** Through a failure: requests continue as before, and what is changed meanwhile arrives at the end. */
  async function endure(fault: { readonly begin: () => unknown; readonly end: () => unknown }): Promise<void> {
    await fault.begin();
    await traffic?.more(20);
    await cluster.api.apply([slice('web', namespace, V2)]);
    await fault.end();
    await served('web-v2');
    await cluster.api.apply([slice('web', namespace, V1)]);
    await served('web-v1');
    assert.equal((await discovery.http('/ready')).status, 200);
  }
  const logs = (line: RegExp) => eventually(() => assert.match(discovery.output(), line), PATIENCE);
  const answered = async (status: number) => {
    const before = proxy.answers.get(status) ?? 0;
    await eventually(() => assert.ok((proxy.answers.get(status) ?? 0) > before), PATIENCE);
  };

  test('continues while the API server is killed and restarted', async () => {
    await endure({
      begin: async () => {
        await cluster.apiServer.kill();
        await logs(/the API server .* cannot be reached/);
        // It must be there for the change; ctl-discovery has its backoff.
        await cluster.apiServer.start();
      },
      end: () => undefined,
    });
  });

  test('continues while etcd is compacted and all history is lost', async () => {
    await endure({
      begin: () => proxy.cut(),
      end: async () => {
        await cluster.compact();
        // The watch cache of the API server would still have the changes.
        await cluster.apiServer.kill();
        await cluster.apiServer.start();
        proxy.restore();
      },
    });
  });

  test('continues while every watch ends after three seconds', async () => {
    const before = proxy.watches();
    await endure({
      begin: async () => {
        proxy.limitWatches(3000);
        await eventually(() => assert.ok(proxy.watches() > before + 10), PATIENCE);
      },
      end: () => undefined,
    });
    proxy.limitWatches(undefined);
  });

  test('continues while the API server answers every request with 429', async () => {
    const before = proxy.throttled();
    await endure({
      begin: async () => {
        proxy.throttle(true);
        proxy.endWatches();
        await eventually(() => assert.ok(proxy.throttled() > before + 20), PATIENCE);
      },
      end: () => proxy.throttle(false),
    });
    await logs(/cannot watch: HTTP 429: Too many requests.*what was read before stays in force/);
  });

  test('continues while its token is revoked and replaced', async (t) => {
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'bound', namespace: ACCOUNT.namespace } };
    await cluster.api.apply([secret]);
    const { metadata } = (await cluster.api.get(`/api/v1/namespaces/${ACCOUNT.namespace}/secrets/bound`)) as {
      metadata: { name: string; uid: string };
    };
    const revoked = await cluster.serviceAccountToken({ ...ACCOUNT, boundTo: { ...secret, metadata } });
    await writeFile(tokenFile, revoked);
    proxy.endWatches();
    await endure({
      begin: async () => {
        // A server that refuses a token closes the connection to new requests. This watch stays open on it.
        const open = '/api/v1/services';
        await eventually(() => assert.ok(proxy.isWatching(open)), PATIENCE);
        await cluster.api.delete(secret);
        const own = createApi(t, cluster.as({ token: revoked }));
        await eventually(async () => assert.equal((await own.request({ path: '/api' })).status, 401), PATIENCE);
        const refused = answered(401);
        proxy.endWatches(open);
        await refused;
      },
      end: async () => writeFile(tokenFile, await cluster.serviceAccountToken(ACCOUNT)),
    });
  });

  test('continues while its rights are taken away and given back', async () => {
    const binding = {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'ctl-discovery' },
    };
    await endure({
      begin: async () => {
        await cluster.api.delete(binding);
        const refused = answered(403);
        proxy.endWatches();
        await refused;
      },
      end: () => cluster.api.apply(RBAC),
    });
  });

  test('continues while the definition of its routes is deleted and created again', async () => {
    const definition = readFileSync(join(DEPLOY, 'crds/virtualservices.networking.mesh.io.yaml'), 'utf8');
    await cluster.api.apply([route('extra')]);
    await served('web-v2');
    await cluster.api.delete({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: 'virtualservices.networking.mesh.io' },
    });
    await served('web-v1');
    await cluster.api.apply(definition);
    await cluster.api.apply([route('extra')]);
    await served('web-v2');
  });

  test('fails no request', async () => {
    await traffic?.more(20);
    assert.deepEqual(await traffic?.stop(), []);
  });
});
