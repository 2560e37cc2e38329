/** The simulated scheduler and kubelet with the real controller manager. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createNetworkHere, type EchoReply, eventually, netnsUnavailable, request } from '../harness/index.ts';
import {
  type ApiObject,
  IMAGES,
  type Kubernetes,
  kubernetesUnavailable,
  startKubelet,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

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
