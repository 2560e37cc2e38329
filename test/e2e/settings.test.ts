/** Settings of discovery that change the configuration of real Envoys: each in its own mesh with one Envoy. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { stringify } from 'yaml';
import { type Echo, startEcho, tempDir } from '../harness/index.ts';
import { SimProxy } from '../harness/sim-proxy.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { type MeshOptions, type MeshProxy, planMesh, sidecar, startMesh, type TestMesh } from './support/mesh.ts';
import { call, eventuallyAll, tally } from './support/traffic.ts';
import { HTTP_PORT } from './support/versions.ts';

const HTTP = [{ name: 'http', port: HTTP_PORT }];

interface Small extends TestMesh {
  readonly client: MeshProxy;
  readonly echo: Echo;
  readonly other: Echo;
}

/** One client, two backends, and the configuration that the test gives for them. */
async function start(
  t: TestContext,
  files: (address: (last: number) => string) => Readonly<Record<string, readonly Document[]>>,
  options: Omit<MeshOptions, 'files'> & { readonly policy?: 'REGISTRY_ONLY' | 'ALLOW_ANY' } = {},
): Promise<Small> {
  const address = planMesh();
  const { policy, ...rest } = options;
  const echo = await startEcho(t, { name: 'one', address: address(21), port: HTTP_PORT });
  const other = await startEcho(t, { name: 'two', address: address(22), port: HTTP_PORT });
  const at = address(10);
  const egress = [{ number: HTTP_PORT, protocol: 'HTTP' }];
  const client = sidecar('client', { address: at, egress, ...(policy === undefined ? {} : { policy }) });
  const mesh = await startMesh(t, address, { ...rest, files: { client: [client], ...files(address) } });
  const proxy = await mesh.startProxy({ name: 'client', address: at, mode: 'delta' });
  return { ...mesh, client: proxy, echo, other };
}

const target = (mesh: Small, host = 'web') => ({ address: mesh.client.address, port: HTTP_PORT, host });

async function answers(mesh: Small, host: string, names: readonly string[]): Promise<void> {
  await eventuallyAll([mesh], async () =>
    assert.deepEqual(Object.keys(await tally(target(mesh, host), 6)).sort(), names),
  );
}

async function status(mesh: Small, host: string, expected: number): Promise<void> {
  await eventuallyAll([mesh], async () => assert.equal((await call(target(mesh, host))).status, expected));
}

const WEB = service('web', { clusterIP: '10.96.0.1', ports: HTTP });

function slice(name: string, addresses: readonly string[], ready: boolean): Document {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace: 'default', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    endpoints: addresses.map((each) => ({ addresses: [each], conditions: { ready } })),
    ports: [{ name: 'http', port: HTTP_PORT, protocol: 'TCP' }],
  };
}

test('with CTL_USE_ENDPOINT_SLICE endpoints come from slices, and count once they are ready', async (t) => {
  const mesh = await start(
    t,
    (address) => ({ web: [WEB, slice('web-1', [address(21)], true), endpoints('web', [address(22)], HTTP)] }),
    { env: { CTL_USE_ENDPOINT_SLICE: 'true' } },
  );
  await answers(mesh, 'web', ['one']);
  await mesh.config.apply('more', slice('web-2', [mesh.address(22)], false));
  await mesh.config.apply('more', slice('web-2', [mesh.address(22)], true));
  await answers(mesh, 'web', ['one', 'two']);
  await mesh.config.remove('more');
  await answers(mesh, 'web', ['one']);
});

test('edits are followed without worker threads, and with endpoints that skip the debounce', async (t) => {
  const files = (address: (last: number) => string) => ({ web: [WEB], ends: [endpoints('web', [address(21)], HTTP)] });
  const env = { CTL_GENERATE_WORKERS: '0', CTL_ENABLE_EDS_DEBOUNCE: 'false' };
  const mesh = await start(t, files, { env });
  await answers(mesh, 'web', ['one']);
  await mesh.config.apply('ends', endpoints('web', [mesh.address(22)], HTTP));
  await answers(mesh, 'web', ['two']);
  await mesh.config.apply(
    'more',
    service('more', { clusterIP: '10.96.0.2', ports: HTTP }),
    endpoints('more', [mesh.address(21)], HTTP),
  );
  await answers(mesh, 'more', ['one']);
});

test('the mesh configuration is followed while discovery runs', async (t) => {
  const folder = await tempDir(t);
  const meshConfig = join(folder, 'mesh');
  const write = (connectTimeout: string, more = {}) => writeFile(meshConfig, stringify({ connectTimeout, ...more }));
  await write('3s');
  const files = (address: (last: number) => string) => ({ web: [WEB, endpoints('web', [address(21)], HTTP)] });
  const mesh = await start(t, files, { flags: ['--meshConfig', meshConfig] });
  const has = async (text: string) =>
    assert.match(JSON.stringify(await mesh.client.configDump()), new RegExp(`"connect_timeout":"${text}"`));
  await eventuallyAll([mesh], () => has('3s'));
  await write('8s', { outboundClusterStatName: '%SERVICE%_%SERVICE_PORT_NAME%' });
  await eventuallyAll([mesh], () => has('8s'));
  await writeFile(meshConfig, 'connectTimeout: soon\n');
  await mesh.config.apply(
    'more',
    service('more', { clusterIP: '10.96.0.2', ports: HTTP }),
    endpoints('more', [mesh.address(22)], HTTP),
  );
  await answers(mesh, 'more', ['two']);
  await has('8s');
  const name = 'cluster.more.default_http.upstream_rq_total';
  const { [name]: requests = 0 } = await mesh.client.stats(`^${name}$`);
  assert.ok(requests > 0, 'the cluster counts under the name of outboundClusterStatName');
});

test('with --appNamespace other namespaces are ignored', async (t) => {
  const elsewhere = (name: string, namespace: string, address: string) => [
    service(name, { namespace, clusterIP: '10.96.0.3', ports: HTTP }),
    endpoints(name, [address], HTTP, namespace),
  ];
  const mesh = await start(
    t,
    (address) => ({
      web: [WEB, endpoints('web', [address(21)], HTTP)],
      others: [...elsewhere('near', 'wanted', address(21)), ...elsewhere('far', 'unwanted', address(22))],
    }),
    { flags: ['--appNamespace', 'default,wanted'] },
  );
  await answers(mesh, 'web', ['one']);
  await answers(mesh, 'near.wanted', ['one']);
  await status(mesh, 'far.unwanted', 502);
});

test('endpoints have the locality of their pods’ nodes and follow its changes', async (t) => {
  const node = (name: string, zone: string): Document => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'topology.kubernetes.io/region': 'eu', 'topology.kubernetes.io/zone': zone } },
  });
  const mesh = await start(t, (address) => ({
    web: [
      WEB,
      pod('web-1', { ip: address(21), labels: { app: 'web' }, nodeName: 'n1' }),
      endpoints('web', { 'web-1': address(21) }, HTTP),
    ],
    nodes: [node('n1', 'eu-a')],
  }));
  const inZone = (zone: string) =>
    eventuallyAll([mesh], async () => {
      const text = await mesh.client.admin('/clusters');
      assert.match(
        text,
        new RegExp(`web\\.default\\.svc\\.cluster\\.local::${mesh.address(21)}:${HTTP_PORT}::zone::${zone}`),
      );
    });
  await inZone('eu-a');
  await mesh.config.apply('nodes', node('n1', 'eu-b'));
  await inZone('eu-b');
});

test('CTL_DOCUMENT_LIMIT_FACTOR decides what one document may ask for', async (t) => {
  const subsets = Array.from({ length: 12 }, (_, index) => ({ name: `v${index}`, labels: { version: `v${index}` } }));
  const web = [WEB, resource('DestinationRule', 'web', { host: 'web', subsets })];
  const problems = async (factor: string) => {
    const mesh = await startMesh(t, planMesh(), { files: { web }, env: { CTL_DOCUMENT_LIMIT_FACTOR: factor } });
    return mesh
      .discovery()
      .output()
      .split('\n')
      .filter((line) => line.includes('spec.subsets'));
  };
  const [line = '', ...others] = await problems('0.01');
  assert.match(
    line,
    /web\.yaml:\d+: .*: spec\.subsets: expected at most 10 subsets, got 12; .*CTL_DOCUMENT_LIMIT_FACTOR/,
  );
  assert.deepEqual(others, []);
  assert.deepEqual(await problems('0.02'), []);
});

test('the Mock registry offers its services without any configuration, to a simulated proxy', async (t) => {
  const flags = ['--registries', 'Mock'];
  const mesh = await startMesh(t, planMesh(), { flags });
  const services = (await mesh.discovery().http('/debug/registryz')).json() as { hostname: string }[];
  assert.deepEqual(services.map(({ hostname }) => hostname).sort(), [
    'hello.default.svc.cluster.local',
    'world.default.svc.cluster.local',
  ]);
  const proxy = new SimProxy({
    port: mesh.discovery().ports.grpc,
    mode: 'delta',
    id: 'sidecar~10.3.0.1~client.default~default.svc.cluster.local',
    metadata: { NAMESPACE: 'default' },
  }).connect();
  t.after(() => proxy.close());
  await eventuallyAll([proxy], async () => {
    assert.ok(proxy.complete());
    for (const { hostname } of services) assert.ok(proxy.content('eds').has(`outbound|80||${hostname}`), hostname);
  });
});
