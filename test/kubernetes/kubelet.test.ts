/** The simulated scheduler and kubelet with the real controller manager. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import {
  createNetworkHere,
  type EchoReply,
  eventually,
  inOwnNetwork,
  netnsUnavailable,
  request,
  startEcho,
} from '../harness/index.ts';
import {
  type ApiObject,
  IMAGES,
  type Image,
  type Kubernetes,
  kubernetesUnavailable,
  type ServiceProxy,
  startKubelet,
  startKubernetes,
  startServiceProxy,
} from '../harness/kubernetes/index.ts';

interface PodStatus {
  readonly podIP?: string;
  readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  readonly containerStatuses?: readonly { readonly state: { readonly waiting?: { readonly message: string } } }[];
}

const execute = promisify(execFile);

const skip = kubernetesUnavailable() ?? (await netnsUnavailable()) ?? false;

const deployment = (namespace: string, replicas: number) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'hello', namespace },
  spec: {
    replicas,
    selector: { matchLabels: { app: 'hello' } },
    template: {
      metadata: { labels: { app: 'hello' } },
      spec: { containers: [{ name: 'hello', image: 'echo', ports: [{ containerPort: 8080 }] }] },
    },
  },
});

const service = (namespace: string) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'hello', namespace },
  spec: { selector: { app: 'hello' }, ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }] },
});

/** Addresses of ready endpoints, written by the controller manager. */
async function readyAddresses({ api }: Kubernetes, namespace: string): Promise<string[]> {
  const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  const { items } = await api.get<{ items: ApiObject[] }>(path);
  const endpoints = items.flatMap(
    (slice) => (slice.endpoints ?? []) as { addresses: string[]; conditions: { ready: boolean } }[],
  );
  return endpoints.filter(({ conditions }) => conditions.ready).flatMap(({ addresses }) => addresses);
}

/** The address of a Service, `<name>.<namespace>`, as Pods find it; throws while the proxy does not have it. */
function addressIn(proxy: ServiceProxy, service: string): string {
  const [, address] = new RegExp(`^(\\S+) ${service}.svc`, 'm').exec(proxy.hosts()) ?? [];
  return address ?? assert.fail(`no address of ${service}`);
}

test('the Pods of a Deployment run and become endpoints of their Service', { skip }, async (t) => {
  const cluster = await startKubernetes(t, { controllerManager: true });
  const network = await createNetworkHere(t);
  await startKubelet(t, { api: cluster.api, network, images: IMAGES });
  const proxy = startServiceProxy(t, cluster.api);
  const namespace = await cluster.newNamespace();
  await cluster.api.apply([deployment(namespace, 2), service(namespace)]);

  const both = await eventually(async () => {
    const addresses = await readyAddresses(cluster, namespace);
    assert.equal(addresses.length, 2);
    return addresses;
  });
  const names = await Promise.all(
    both.map(async (address) => ((await request({ address, port: 8080 })).json() as EchoReply).name),
  );
  assert.equal(new Set(names).size, 2);
  for (const name of names) assert.match(name, /^hello-/);

  // By the address of the Service, as its name leads to it. The proxy sees it and its endpoints by watches of its own.
  await eventually(async () => {
    const address = addressIn(proxy, `hello.${namespace}`);
    const answers = await Promise.all([1, 2].map(() => request({ address, port: 80 })));
    assert.deepEqual(new Set(answers.map((answer) => (answer.json() as EchoReply).name)), new Set(names));
  });

  await cluster.api.apply([deployment(namespace, 1)]);
  const one = await eventually(async () => {
    const addresses = await readyAddresses(cluster, namespace);
    assert.equal(addresses.length, 1);
    return addresses;
  });
  assert.ok(both.includes(one[0] ?? ''));
  const [ended = ''] = both.filter((address) => address !== one[0]);
  await eventually(() => assert.rejects(request({ address: ended, port: 8080, timeoutMs: 1_000 })));
});

test('a connection to a Service is not held up by an endpoint that has gone', {
  skip: skip || (inOwnNetwork() ? false : 'needs a network namespace of its own, as the stage `kubernetes` has'),
}, async (t) => {
  const cluster = await startKubernetes(t);
  const proxy = startServiceProxy(t, cluster.api);
  const namespace = await cluster.newNamespace();
  const [gone, alive] = ['10.244.21.1', '10.244.21.2'];
  const echo = await startEcho(t, { name: 'alive', address: alive });
  const dropped = ['INPUT', '-d', gone, '-p', 'tcp', '--dport', String(echo.port), '-j', 'DROP'];
  await execute('iptables', ['-w', '-A', ...dropped]);
  t.after(() => execute('iptables', ['-w', '-D', ...dropped]));
  const metadata = { name: 'hello', namespace, labels: { 'kubernetes.io/service-name': 'hello' } };
  const ports = [{ name: 'http', port: echo.port, protocol: 'TCP' }];
  const endpoints = [gone, alive].map((address) => ({ addresses: [address], conditions: { ready: true } }));
  const slice = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata, addressType: 'IPv4' };
  await cluster.api.apply([{ ...slice, ports, endpoints }, service(namespace)]);
  const answered = async (): Promise<void> => {
    const answer = await request({ address: addressIn(proxy, `hello.${namespace}`), port: 80 });
    assert.equal((answer.json() as EchoReply).name, 'alive');
  };
  await eventually(answered);
  // In turn, one of two begins with the endpoint that has gone.
  for (let times = 0; times < 2; times++) await answered();
});

/** Answers with the files and variables that a container has. */
const show: Image = ({ podIP }) => [
  process.execPath,
  '-e',
  `const { readFileSync, existsSync } = require('node:fs');
  const read = (path) => existsSync(path) ? readFileSync(path, 'utf8') : '';
  require('node:http').createServer((_, answer) => answer.end(JSON.stringify({
    key: read(process.env.KEY),
    token: read('./var/run/secrets/tokens/mesh-token'),
    root: read('./var/run/root/root-cert.pem'),
    app: process.env.APP,
    labels: read('./etc/podinfo/labels'),
  }))).listen(8080, '${podIP}');`,
];

const podWithVolumes = (namespace: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'files', namespace, labels: { app: 'files' } },
  spec: {
    serviceAccountName: 'default',
    containers: [
      {
        name: 'show',
        image: 'show',
        env: [
          { name: 'KEY', value: '/etc/certs/key' },
          { name: 'APP', valueFrom: { fieldRef: { fieldPath: "metadata.labels['app']" } } },
        ],
        readinessProbe: { httpGet: { port: 8080, path: '/' } },
        volumeMounts: [
          { name: 'certs', mountPath: '/etc/certs' },
          { name: 'root', mountPath: '/var/run/root' },
          { name: 'tokens', mountPath: '/var/run/secrets/tokens' },
          { name: 'podinfo', mountPath: '/etc/podinfo' },
        ],
      },
    ],
    volumes: [
      { name: 'certs', secret: { secretName: 'pair', items: [{ key: 'tls.key', path: 'key' }] } },
      { name: 'root', configMap: { name: 'root' } },
      {
        name: 'tokens',
        projected: { sources: [{ serviceAccountToken: { path: 'mesh-token', audience: 'mesh-ca' } }] },
      },
      { name: 'podinfo', downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } },
    ],
  },
});

test('a Pod starts with its volumes once the objects that they need exist', { skip }, async (t) => {
  const cluster = await startKubernetes(t, { controllerManager: true });
  const network = await createNetworkHere(t);
  await startKubelet(t, { api: cluster.api, network, images: { show } });
  const namespace = await cluster.newNamespace();
  const path = `/api/v1/namespaces/${namespace}`;
  await eventually(() => cluster.api.get(`${path}/serviceaccounts/default`));
  await cluster.api.apply([podWithVolumes(namespace)]);
  const statusOf = async () => (await cluster.api.get(`${path}/pods/files`)).status as PodStatus;
  await eventually(async () =>
    assert.match((await statusOf()).containerStatuses?.[0]?.state.waiting?.message ?? '', /secrets pair: .* 404/),
  );
  await cluster.api.apply([
    { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'pair', namespace }, stringData: { 'tls.key': 'secret' } },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'root', namespace }, data: { 'root-cert.pem': 'public' } },
  ]);
  const address = await eventually(async () => {
    const { conditions = [], podIP = '' } = await statusOf();
    assert.ok(conditions.some(({ type, status }) => type === 'Ready' && status === 'True'));
    return podIP;
  });
  const { token, ...files } = (await request({ address, port: 8080 })).json() as { token: string };
  assert.deepEqual(files, { key: 'secret', root: 'public', app: 'files', labels: 'app="files"' });
  const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  assert.deepEqual(claims.aud, ['mesh-ca']);
  assert.equal(claims['kubernetes.io'].pod.name, 'files');
});
