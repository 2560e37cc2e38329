/**
 * Gateways in a namespace with injection: the Pods of the controller and of the chart stay as they are written, run,
 * and pass requests on. What came back from the API server is started by the simulated kubelet.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createScope, type EchoReply, eventually, netnsUnavailable, request } from '../harness/index.ts';
import {
  type ApiObject,
  conformanceUnavailable,
  helmUnavailable,
  isInjected,
  kubernetesUnavailable,
  renderChart,
} from '../harness/kubernetes/index.ts';
import { type InjectedMesh, kubectlUnavailable, startInjectedMesh } from './support/injected-mesh.ts';

const skip =
  kubernetesUnavailable() ??
  conformanceUnavailable() ??
  helmUnavailable() ??
  (await netnsUnavailable()) ??
  kubectlUnavailable() ??
  false;

const EDGE = 'edge';
const API = 'gateway.networking.k8s.io/v1';

describe('gateways in a namespace with injection', { skip }, () => {
  const owner = createScope();
  let mesh: InjectedMesh;
  before(async () => {
    mesh = await startInjectedMesh(owner, [EDGE], {}, { gatewayApi: true });
  });
  after(() => owner.close());

  const object = (apiVersion: string, kind: string, name: string, more: object) => ({
    apiVersion,
    kind,
    metadata: { name, namespace: EDGE },
    ...more,
  });

  /** Its only container is that of the gateway, and it has not been started again. */
  async function assertRuns(selector: string): Promise<string> {
    const [pod] = await mesh.ready(EDGE, selector);
    assert.ok(pod);
    assert.equal(isInjected(pod), false);
    assert.deepEqual(
      pod.status.containerStatuses?.map(({ name, restartCount }) => [name, restartCount]),
      [['proxy', 0]],
    );
    return pod.status.podIP ?? '';
  }

  const assertServes = (address: string, port: number) =>
    eventually(async () => {
      const answer = await request({ address, port, headers: { host: 'shop.example' } });
      assert.equal(answer.status, 200, answer.body);
      assert.equal((answer.json() as EchoReply).name, 'echo');
    });

  test('those of the controller and of the chart have no sidecar and serve', async () => {
    const echo = { name: 'app', image: 'echo', ports: [{ containerPort: 8080 }] };
    const backendRefs = [{ name: 'echo', port: 80 }];
    const servers = [{ port: { number: 8080, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }];
    const route = [{ destination: { host: 'echo', port: { number: 80 } } }];
    await mesh.apply(
      { ...object('v1', 'Pod', 'echo', { spec: { containers: [echo] } }), ...withLabels('echo', { app: 'echo' }) },
      object('v1', 'Service', 'echo', {
        spec: { selector: { app: 'echo' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }] },
      }),
      object(API, 'Gateway', 'managed', {
        spec: { gatewayClassName: 'meshd', listeners: [{ name: 'http', port: 8080, protocol: 'HTTP' }] },
      }),
      object(API, 'HTTPRoute', 'echo', { spec: { parentRefs: [{ name: 'managed' }], rules: [{ backendRefs }] } }),
      object('networking.mesh.io/v1alpha3', 'Gateway', 'ingress', {
        spec: { selector: { gateway: 'ingress' }, servers },
      }),
      object('networking.mesh.io/v1alpha3', 'VirtualService', 'ingress', {
        spec: { hosts: ['shop.example'], gateways: ['ingress'], http: [{ route }] },
      }),
    );
    const values = { replicas: 1, autoscaling: { enabled: false }, preStopSeconds: 1, drainSeconds: 2 };
    const release = { chart: 'gateway', release: 'ingress', namespace: EDGE, values } as const;
    await mesh.cluster.api.apply(await renderChart(owner, release));
    await assertServes(await assertRuns('gateway.networking.k8s.io/gateway-name=managed'), 8080);
    await assertServes(await assertRuns('gateway=ingress'), 8080);
  });

  test('one without labels of injection is recognized by what it runs', async () => {
    const spec = { containers: [{ name: 'proxy', image: 'ctl-agent:0.1.0', args: ['proxy', 'router'] }] };
    const body = object('v1', 'Pod', 'by-hand', { spec });
    const path = `/api/v1/namespaces/${EDGE}/pods?dryRun=All`;
    const answer = await mesh.cluster.api.request({ method: 'POST', path, body });
    assert.equal(answer.status, 201);
    assert.equal(isInjected(answer.json() as ApiObject), false);
  });
});

const withLabels = (name: string, labels: object) => ({ metadata: { name, namespace: EDGE, labels } });
