/**
 * Addresses of Ingresses on a real API server: ctl-discovery writes those of the Service in front of the gateways,
 * under the permissions of deploy/rbac.yaml.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createScope, discoveryPorts, eventually, startDiscovery } from '../harness/index.ts';
import {
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? false;

const ONE = { ip: '203.0.113.1' };
const TWO = { hostname: 'lb.example.com' };

describe('the addresses of Ingresses', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  let shop = '';
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'mesh-ingressgateway', namespace: '' } };

  const ingress = (name: string, ingressClassName: string) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    metadata: { name, namespace: shop },
    spec: { ingressClassName, defaultBackend: { service: { name: 'web', port: { number: 80 } } } },
  });
  const assign = (...addresses: readonly object[]) =>
    cluster.api.patch(service, { status: { loadBalancer: { ingress: addresses } } }, 'status');
  const statusOf = async (name: string) =>
    (await cluster.api.get(`/apis/networking.k8s.io/v1/namespaces/${shop}/ingresses/${name}`)).status;
  const has = (name: string, ...addresses: readonly object[]) =>
    eventually(async () => assert.deepEqual(await statusOf(name), at(...addresses)));
  const at = (...addresses: readonly object[]) => ({
    loadBalancer: addresses.length === 0 ? {} : { ingress: addresses },
  });

  before(async () => {
    cluster = await startKubernetes(owner);
    shop = await cluster.newNamespace('shop');
    const edge = await cluster.newNamespace('edge');
    service.metadata.namespace = edge;
    await cluster.api.apply([
      { ...service, spec: { type: 'LoadBalancer', ports: [{ port: 80 }] } },
      ingress('web', 'mesh'),
      ingress('other', 'other'),
    ]);
    await startDiscovery(owner, {
      kubeconfig: await discoveryKubeconfig(owner, cluster),
      ports: await discoveryPorts(),
      env: { ORCH_INGRESS_NS: edge },
    });
  });
  after(() => owner.close());

  test('are those of the Service, are repaired, and go when an Ingress gets another class', async () => {
    await assign(ONE);
    await has('web', ONE);
    await assign(ONE, TWO);
    await has('web', ONE, TWO);

    await cluster.api.patch(ingress('web', 'mesh'), { status: { loadBalancer: null } }, 'status');
    await has('web', ONE, TWO);

    await cluster.api.apply([ingress('late', 'mesh')]);
    await has('late', ONE, TWO);
    await cluster.api.apply([ingress('web', 'other')]);
    await has('web');
    assert.deepEqual(await statusOf('other'), at());
  });
});
