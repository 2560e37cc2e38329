/**
 * The webhook configurations of the chart, kept current by two replicas of ctl-discovery: the API server calls them
 * through the Service, under the permissions of the chart.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { derOf, makeCa, pemOf } from '../../src/security/testing/credentials.ts';
import { createScope, type Discovery, discoveryPorts, eventually, startDiscovery } from '../harness/index.ts';
import {
  type ApiObject,
  discoveryKubeconfig,
  helmUnavailable,
  type Kubernetes,
  kubernetesUnavailable,
  meshRoot,
  renderChart,
  startKubernetes,
} from '../harness/kubernetes/index.ts';
import { RESOLVE_SERVICES, SERVICE_ADDRESS, serveAt } from './support/webhook-server.ts';

const skip = kubernetesUnavailable() ?? helmUnavailable() ?? false;
const SYSTEM = 'mesh-system';
const API = '/apis/admissionregistration.k8s.io/v1';
const INJECTOR = `${API}/mutatingwebhookconfigurations/mesh-sidecar-injector`;
const VALIDATOR = `${API}/validatingwebhookconfigurations/meshd-mesh-system`;
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${SYSTEM}/leases/meshd-webhook-configurations`;
const KINDS = ['Service', 'MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'];

interface Webhook {
  readonly clientConfig: { readonly caBundle?: string };
  readonly failurePolicy: string;
}

interface Replica extends Discovery {
  readonly name: string;
}

/** The Lease of a leader that was killed ends after 15 s. */
const LEASE_TIME = { timeoutMs: 60_000 };

describe('the webhook configurations of two replicas', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  let kubeconfig = '';
  let replicas: Replica[] = [];

  before(async () => {
    cluster = await startKubernetes(owner, { apiServerFlags: [RESOLVE_SERVICES], definitions: true });
    kubeconfig = await discoveryKubeconfig(owner, cluster);
    const chart = parseAllDocuments(await renderChart(owner, { chart: 'ctl-discovery', namespace: SYSTEM }));
    const objects = chart.map((document) => document.toJS() as ApiObject | null);
    await cluster.api.apply(objects.filter((object) => object !== null && KINDS.includes(object.kind)) as ApiObject[]);
    const metadata = { name: 'shop', labels: { 'mesh-injection': 'enabled' } };
    await cluster.api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata }]);
    replicas = await Promise.all(['one', 'two'].map(start));
  });
  after(() => owner.close());

  async function start(name: string): Promise<Replica> {
    const ports = await discoveryPorts();
    const flags = ['--httpsAddr', `${SERVICE_ADDRESS}:${ports.https}`];
    return { ...(await startDiscovery(owner, { kubeconfig, ports, flags, env: { POD_NAME: name } })), name };
  }

  const serve = (...serving: readonly Replica[]) =>
    serveAt(
      cluster.api,
      SYSTEM,
      serving.map(({ ports }) => ports.https ?? 0),
    );

  const webhooks = async (path: string) => (await cluster.api.get<ApiObject & { webhooks: Webhook[] }>(path)).webhooks;

  const change = async (path: string, changed: (webhook: Webhook) => Webhook): Promise<void> => {
    const body = { webhooks: (await webhooks(path)).map(changed) };
    const answer = await cluster.api.request({
      method: 'PATCH',
      path,
      contentType: 'application/merge-patch+json',
      body,
    });
    assert.equal(answer.status, 200, answer.body);
  };

  const haveBundle = (bundle: string) =>
    eventually(async () => {
      for (const path of [INJECTOR, VALIDATOR])
        for (const { clientConfig } of await webhooks(path))
          assert.equal(Buffer.from(clientConfig.caBundle ?? '', 'base64').toString(), bundle, path);
    }, LEASE_TIME);

  const havePolicy = (policy: string) =>
    eventually(async () => {
      const policies = (await webhooks(VALIDATOR)).map(({ failurePolicy }) => failurePolicy);
      assert.deepEqual([...new Set(policies)], [policy], replicas.map(({ output }) => output()).join('\n'));
    }, LEASE_TIME);

  const leader = async (): Promise<string> => {
    const { spec } = await cluster.api.get<ApiObject & { spec: { holderIdentity: string } }>(LEASE);
    return spec.holderIdentity.split('_')[0] ?? '';
  };

  /** Two servers with one name: its definition accepts that. */
  const invalidGateway = {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'Gateway',
    metadata: { name: 'wrong', namespace: 'shop' },
    spec: { servers: [80, 81].map((number) => ({ port: { number, name: 'a', protocol: 'HTTP' }, hosts: ['*'] })) },
  };
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web', namespace: 'shop' },
    // The admission plugin that would set it does not run.
    spec: { serviceAccountName: 'default', containers: [{ name: 'web', image: 'web' }] },
  };
  const createPod = () => cluster.api.apply([pod], { dryRun: true });

  test('validation is open until the API server reaches a replica, and then refuses what is wrong', async () => {
    await haveBundle(await meshRoot(cluster));
    // The Service leads nowhere yet.
    await cluster.api.apply([invalidGateway], { dryRun: true });
    await havePolicy('Ignore');
    await assert.rejects(createPod(), /failed calling webhook/);
    await serve(...replicas);
    await havePolicy('Fail');
    await eventually(() => assert.rejects(cluster.api.apply([invalidGateway]), /denied the request: .*port/s));
    const prefix = (text: string) => ({
      match: [{ uri: { prefix: text } }],
      route: [{ destination: { host: 'web' } }],
    });
    const dryRun = await cluster.api.request({
      method: 'POST',
      path: '/apis/networking.mesh.io/v1alpha3/namespaces/shop/virtualservices?dryRun=All',
      body: {
        apiVersion: 'networking.mesh.io/v1alpha3',
        kind: 'VirtualService',
        metadata: { name: 'web', namespace: 'shop' },
        spec: { hosts: ['web'], http: [prefix('/a'), prefix('/a/b')] },
      },
    });
    assert.equal(dryRun.status, 201, dryRun.body);
    assert.match(String(dryRun.headers.warning), /route prefix \/a\/b is never reached/);
    const leading = replicas.find(({ output }) => output().includes('set failurePolicy of 3 webhooks to Fail'));
    assert.equal(leading?.name, await leader());
    assert.equal(await leading?.metric('cfg_validation_config_updates'), 2);
    assert.equal(await leading?.metric('cfg_validation_config_update_error'), 0);
    const stored = await cluster.api.request({ path: '/apis/networking.mesh.io/v1alpha3/gateways' });
    assert.deepEqual((stored.json() as { items: unknown[] }).items, []);
  });

  test('no Pod is refused while another root takes over, and each is injected', async () => {
    await eventually(createPod);
    const failures: string[] = [];
    let created = 0;
    let ended = false;
    const stream = (async () => {
      while (!ended) {
        try {
          const [injected] = await createPod();
          created++;
          if (!JSON.stringify(injected?.spec).includes('mesh-proxy')) failures.push('not injected');
        } catch (error) {
          failures.push(String(error));
        }
      }
    })();
    const more = async (count: number): Promise<void> => {
      const least = created + count;
      await eventually(() => assert.ok(created >= least || failures.length > 0));
    };
    const before = await meshRoot(cluster);
    const times = { notBefore: Date.now() - 60_000, notAfter: Date.now() + 3_600_000 };
    const ca = makeCa({ name: 'next', ...times });
    const next = pemOf(derOf(ca));
    await more(5);
    // As docs/kubernetes-identity.md says: agents get the new root before it signs.
    await editSecret({ 'former-certs.pem': next });
    await haveBundle(before + next);
    await more(10);
    const key = ca.keys.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
    await editSecret({ 'ca-cert.pem': next, 'ca-key.pem': key, 'former-certs.pem': before });
    await eventually(async () => {
      for (const { output } of replicas) assert.match(output(), /use the new certificate/);
    });
    await haveBundle(next + before);
    await more(10);
    ended = true;
    await stream;
    assert.deepEqual(failures, []);
  });

  const editSecret = (texts: Readonly<Record<string, string>>) => {
    const data = Object.fromEntries(
      Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]),
    );
    const metadata = { name: 'mesh-ca-secret', namespace: SYSTEM };
    return cluster.api.patch({ apiVersion: 'v1', kind: 'Secret', metadata }, { data });
  };

  const overwrite = async (): Promise<void> => {
    const caBundle = Buffer.from(pemOf(derOf(makeCa({ name: 'foreign', notBefore: 0, notAfter: 1e13 })))).toString(
      'base64',
    );
    for (const path of [INJECTOR, VALIDATOR])
      await change(path, (webhook) => ({
        ...webhook,
        clientConfig: { ...webhook.clientConfig, caBundle },
        failurePolicy: 'Ignore',
      }));
  };

  test('overwritten fields are repaired, even when the leader is killed', async () => {
    const [webhook] = await webhooks(INJECTOR);
    const bundle = Buffer.from(webhook?.clientConfig.caBundle ?? '', 'base64').toString();
    await overwrite();
    await haveBundle(bundle);
    await havePolicy('Fail');
    const name = await leader();
    const killed = replicas.find((replica) => replica.name === name);
    await killed?.kill();
    replicas = replicas.filter((replica) => replica !== killed);
    // As the kubelet does.
    await cluster.api.delete({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'meshd-1', namespace: SYSTEM },
    });
    await serve(...replicas);
    await overwrite();
    await haveBundle(bundle);
    await havePolicy('Fail');
    assert.notEqual(await leader(), name);
  });

  test('without a replica edits are refused, deletions are not, and one command opens validation', async () => {
    const gateway = { ...invalidGateway, spec: { servers: invalidGateway.spec.servers.slice(0, 1) } };
    await cluster.api.apply([gateway]);
    await Promise.all(replicas.map((replica) => replica.stop()));
    const edited = { ...gateway, metadata: { ...gateway.metadata, labels: { a: 'b' } } };
    await assert.rejects(cluster.api.apply([edited]), /failed calling webhook/);
    await havePolicy('Fail');
    await cluster.api.delete(gateway);
    await change(VALIDATOR, (webhook) => ({ ...webhook, failurePolicy: 'Ignore' }));
    await eventually(() => cluster.api.apply([edited]));
  });
});
