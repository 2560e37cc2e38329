/** The simulated scheduler and kubelet with the real controller manager. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createNetworkHere, type EchoReply, eventually, netnsUnavailable, request } from '../harness/index.ts';
import {
  type ApiObject,
  IMAGES,
  type Image,
  type Kubernetes,
  kubernetesUnavailable,
  startKubelet,
  startKubernetes,
  startServiceProxy,
} from '../harness/kubernetes/index.ts';

interface PodStatus {
  readonly podIP?: string;
  readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  readonly containerStatuses?: readonly { readonly state: { readonly waiting?: { readonly message: string } } }[];
}

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

  // By the address of the Service, as its name leads to it.
  const [, address = ''] = new RegExp(`^(\\S+) hello.${namespace}.svc`, 'm').exec(proxy.hosts()) ?? [];
  const answers = await Promise.all([1, 2].map(() => request({ address, port: 80 })));
  assert.deepEqual(new Set(answers.map((answer) => (answer.json() as EchoReply).name)), new Set(names));

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
