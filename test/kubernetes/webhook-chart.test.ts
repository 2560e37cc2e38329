/** The webhook configurations of the chart in a real API server: which Pods and objects they select, and upgrades. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createScope, eventually } from '../harness/index.ts';
import {
  type ApiObject,
  applyDefinitions,
  helmUnavailable,
  installChart,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
  uninstallChart,
} from '../harness/kubernetes/index.ts';
import { RESOLVE_SERVICES, type Review, serveAt, startWebhookServer } from './support/webhook-server.ts';

const skip = kubernetesUnavailable() ?? helmUnavailable() ?? false;
const SYSTEM = 'mesh-system';
const API = '/apis/admissionregistration.k8s.io/v1';
const INJECTOR = `${API}/mutatingwebhookconfigurations/mesh-sidecar-injector`;
const VALIDATOR = `${API}/validatingwebhookconfigurations/meshd-mesh-system`;

type Labels = Readonly<Record<string, string>>;

interface Webhook {
  readonly name: string;
  readonly clientConfig: { readonly caBundle?: string };
  readonly failurePolicy: string;
}

describe('the webhook configurations of the chart', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  let kubeconfig = '';
  let reviews: Review[] = [];
  let caBundle = '';

  before(async () => {
    cluster = await startKubernetes(owner, { apiServerFlags: [RESOLVE_SERVICES] });
    kubeconfig = await cluster.kubeconfig(owner);
    await Promise.all([
      applyDefinitions(cluster.api, { istio: true }),
      cluster.api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM } }]),
    ]);
    const server = await startWebhookServer(owner, SYSTEM, (review) => {
      reviews.push(review);
      return undefined;
    });
    caBundle = Buffer.from(server.ca).toString('base64');
    await install({});
    await serveAt(cluster.api, SYSTEM, [server.port]);
    for (const path of [INJECTOR, VALIDATOR]) await edit(path, (webhook) => trusting(webhook));
  });
  after(() => owner.close());

  const install = (values: object) =>
    installChart(owner, kubeconfig, { chart: 'ctl-discovery', namespace: SYSTEM, values });

  const trusting = (webhook: Webhook): Webhook => {
    return { ...webhook, clientConfig: { ...webhook.clientConfig, caBundle } };
  };

  const webhooksOf = async (path: string) =>
    (await cluster.api.get<ApiObject & { webhooks: readonly Webhook[] }>(path)).webhooks;

  /** What the control plane does. */
  async function edit(path: string, change: (webhook: Webhook) => Webhook): Promise<void> {
    const webhooks = (await webhooksOf(path)).map(change);
    const contentType = 'application/merge-patch+json';
    const answer = await cluster.api.request({ method: 'PATCH', path, contentType, body: { webhooks } });
    assert.equal(answer.status, 200, answer.body);
  }

  let count = 0;

  /** How many reviews the creation of a Pod with these labels causes in a namespace with those. */
  async function reviewsOf(namespaceLabels: Labels, labels: Labels, namespace?: string): Promise<number> {
    const name = namespace ?? `ns-${++count}`;
    if (namespace === undefined)
      await cluster.api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: namespaceLabels } }]);
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', namespace: name, labels } };
    reviews = [];
    await eventually(async () => {
      // The informers of the API server may not have read the namespace yet.
      await cluster.api.apply([{ ...pod, spec: { containers: [{ name: 'c', image: 'i' }] } }], { dryRun: true });
    });
    return reviews.filter(({ path }) => path === '/inject').length;
  }

  test('the injector gets each Pod at most once, by the labels of its namespace or else by its own', async () => {
    // The configuration is in use when a Pod that it selects is reviewed.
    await eventually(async () => assert.equal(await reviewsOf({ 'mesh-injection': 'enabled' }, {}), 1));
    const rows: readonly (readonly [expected: number, namespace: Labels, pod: Labels])[] = [
      [0, {}, {}],
      [1, { 'istio-injection': 'enabled' }, {}],
      [1, { 'mesh-injection': 'enabled', 'istio-injection': 'enabled' }, { 'sidecar.mesh.io/inject': 'true' }],
      [0, { 'mesh-injection': 'disabled' }, {}],
      [0, { 'mesh-injection': 'disabled', 'istio-injection': 'enabled' }, {}],
      [0, { 'mesh-injection': 'disabled' }, { 'sidecar.mesh.io/inject': 'true' }],
      [0, { 'mesh-injection': 'enabled' }, { 'sidecar.mesh.io/inject': 'false' }],
      [0, { 'mesh-injection': 'enabled' }, { 'sidecar.istio.io/inject': 'no' }],
      [1, {}, { 'sidecar.mesh.io/inject': 'true' }],
      [1, {}, { 'sidecar.istio.io/inject': 'true' }],
      [1, {}, { 'sidecar.mesh.io/inject': 'yes', 'sidecar.istio.io/inject': 'true' }],
      [1, { 'mesh.io/rev': 'default' }, {}],
      [1, { 'istio.io/rev': 'default', 'mesh.io/rev': 'default' }, {}],
      [0, { 'istio.io/rev': 'default', 'mesh.io/rev': 'canary' }, {}],
      [0, { 'mesh.io/rev': 'canary' }, {}],
      [0, { 'mesh.io/rev': 'canary' }, { 'sidecar.mesh.io/inject': 'true' }],
      [1, {}, { 'istio.io/rev': 'default' }],
      [1, {}, { 'mesh.io/rev': 'default', 'istio.io/rev': 'canary' }],
      [0, {}, { 'mesh.io/rev': 'canary', 'sidecar.mesh.io/inject': 'true' }],
    ];
    for (const [expected, namespace, pod] of rows)
      assert.equal(await reviewsOf(namespace, pod), expected, JSON.stringify([namespace, pod]));
  });

  test('Pods of Kubernetes and of the control plane are never reviewed', async () => {
    for (const namespace of ['kube-system', 'kube-public', 'kube-node-lease', SYSTEM])
      assert.equal(await reviewsOf({}, { 'sidecar.mesh.io/inject': 'true' }, namespace), 0, namespace);
  });

  test('mesh resources are reviewed by the revision of their label, else by the release without one', async () => {
    const { length } = await webhooksOf(VALIDATOR);
    assert.equal(length, 3);
    const reviewed = async (group: string, labels: Labels) => {
      const metadata = { name: 'gw', namespace: 'default', labels };
      const servers = [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }];
      reviews = [];
      const gateway = { apiVersion: `${group}/v1alpha3`, kind: 'Gateway', metadata, spec: { servers } };
      await cluster.api.apply([gateway], { dryRun: true });
      return reviews.map(({ path }) => path);
    };
    await eventually(async () => assert.deepEqual(await reviewed('networking.mesh.io', {}), ['/validate']));
    assert.deepEqual(await reviewed('networking.istio.io', {}), ['/validate']);
    assert.deepEqual(await reviewed('networking.mesh.io', { 'istio.io/rev': 'default' }), ['/validate']);
    assert.deepEqual(await reviewed('networking.mesh.io', { 'mesh.io/rev': 'canary' }), []);
  });

  test('an upgrade keeps the CA bundle and the failure policy that the control plane has set', async () => {
    await edit(VALIDATOR, (webhook) => ({ ...webhook, failurePolicy: 'Fail' }));
    await install({ podLabels: { team: 'mesh' } });
    for (const path of [INJECTOR, VALIDATOR])
      for (const { name, failurePolicy, clientConfig } of await webhooksOf(path))
        assert.deepEqual([failurePolicy, clientConfig.caBundle], ['Fail', caBundle], name);
    await install({ validation: { failurePolicy: 'Ignore' } });
    assert.ok((await webhooksOf(VALIDATOR)).every(({ failurePolicy }) => failurePolicy === 'Ignore'));
    const { metadata } = await cluster.api.get(VALIDATOR);
    assert.equal((metadata.annotations as Labels)['mesh.io/failure-policy'], 'Ignore');
    await install({ injection: { enabled: false }, validation: { failurePolicy: 'Fail' } });
    assert.ok((await webhooksOf(VALIDATOR)).every(({ failurePolicy }) => failurePolicy === 'Fail'));
    assert.equal((await cluster.api.request({ path: INJECTOR })).status, 404);
  });

  test('a release that is removed takes both configurations with it', async () => {
    await install({});
    await uninstallChart(owner, kubeconfig, { chart: 'ctl-discovery', namespace: SYSTEM });
    for (const path of [INJECTOR, VALIDATOR]) assert.equal((await cluster.api.request({ path })).status, 404, path);
  });
});
