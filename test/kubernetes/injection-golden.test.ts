/**
 * The golden files of injection through a real API server: each Pod is sent with dry run, and the webhook, with its
 * HTTPS server and worker, makes of it what the golden file has. The API server accepts each golden file with strict
 * field validation, and those that say so under restricted Pod Security.
 *
 * Both the injected Pod and the golden file come back from the API server, so both have its defaults.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  GOLDEN_NAMESPACE,
  type GoldenCase,
  type GoldenResult,
  goldenCases,
  goldenResult,
} from '../../src/webhooks/injection/testing/golden-cases.ts';
import { SETTINGS } from '../../src/webhooks/injection/testing/settings.ts';
import { testCertificate } from '../../src/webhooks/testing/certificate.ts';
import { type StartedWebhooks, startWebhooks } from '../../src/webhooks/testing/webhook-client.ts';
import type { PodObject } from '../../src/webhooks/types.ts';
import { lazy, suiteOwner } from '../e2e/support/suite.ts';
import { eventually } from '../harness/index.ts';
import {
  type ApiObject,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? false;
const CASES = goldenCases();

/** Injected by the webhook. */
const SHOP = 'shop';
/** Injected by the webhook with parameters in its path. */
const EAST = 'shop-east';
const NOT_INJECTED = 'plain';
const RESTRICTED = 'restricted';

const owner = suiteOwner();
const cluster = lazy<Kubernetes>();
const webhooks = lazy<StartedWebhooks>();

before(async () => {
  if (skip !== false) return;
  const certificate = testCertificate('localhost');
  const [started] = await Promise.all([startKubernetes(owner), startWebhooks(owner, certificate)]).then(
    ([kubernetes, server]) => [cluster.set(kubernetes), webhooks.set(server)] as const,
  );
  const namespaces = [SHOP, EAST, NOT_INJECTED, RESTRICTED].map((name) => {
    const labels = name === RESTRICTED ? { 'pod-security.kubernetes.io/enforce': 'restricted' } : {};
    return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
  });
  await started.api.apply(namespaces);
  await started.api.apply([webhookConfiguration(webhooks.get().port, certificate.ca)]);
  // The API server reads webhook configurations a moment later.
  for (const namespace of [SHOP, EAST]) {
    await eventually(async () => {
      const { metadata } = await create(
        namespace,
        withMetadata(CASES.find(({ name }) => name === 'plain')?.pod ?? {}, {}),
      );
      assert.ok('annotations' in metadata, `no injection in ${namespace}`);
    });
  }
});

function webhookConfiguration(port: number, ca: string): ApiObject {
  const webhook = (namespace: string, path: string) => ({
    name: `${namespace}.injection.mesh.io`,
    clientConfig: { url: `https://localhost:${port}${path}`, caBundle: Buffer.from(ca).toString('base64') },
    rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
    failurePolicy: 'Fail',
    reinvocationPolicy: 'IfNeeded',
  });
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name: 'golden' },
    webhooks: [webhook(SHOP, '/inject'), webhook(EAST, '/inject/cluster/east/net/core')],
  };
}

function withMetadata(pod: PodObject, fields: object): ApiObject {
  const object = pod as ApiObject;
  return { ...object, metadata: { ...object.metadata, ...fields } };
}

/** These API servers do not set the service account, which is set before webhooks are called. */
function withServiceAccount(pod: PodObject): ApiObject {
  const object = pod as ApiObject;
  return { ...object, spec: { serviceAccountName: 'default', ...(object.spec as object) } };
}

/** What the API server would store. Throws its message. */
async function create(namespace: string, pod: PodObject): Promise<ApiObject> {
  const answer = await cluster.get().api.request({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/pods?dryRun=All&fieldValidation=Strict`,
    body: withServiceAccount(pod),
  });
  assert.equal(answer.status, 201, answer.body);
  return answer.json() as ApiObject;
}

/** Without what differs between two objects with the same content. */
function content({ metadata, ...object }: ApiObject): object {
  const { uid: _uid, namespace: _namespace, creationTimestamp: _time, managedFields: _fields, ...own } = metadata;
  const { name, ...others } = own;
  return { ...object, metadata: own.generateName === undefined ? { name, ...others } : others };
}

function expectedPod(result: GoldenResult, { pod }: GoldenCase): PodObject {
  return 'pod' in result ? result.pod : pod;
}

/** The owner of a bare Pod, which is the Pod itself, is named with its namespace. */
function ownedIn(namespace: string, pod: PodObject): PodObject {
  return JSON.parse(JSON.stringify(pod).replaceAll(`/namespaces/${GOLDEN_NAMESPACE}/`, `/namespaces/${namespace}/`));
}

for (const each of CASES) {
  test(`the API server injects the Pod ${each.name} as its golden file shows`, { skip }, async () => {
    const namespace = each.parameters.cluster === undefined ? SHOP : EAST;
    const expected = ownedIn(namespace, expectedPod(goldenResult(each.name), each));
    webhooks.get().pool.use({ ...SETTINGS, ...each.settings });
    const wanted = content(await create(NOT_INJECTED, expected));
    assert.deepEqual(content(await create(namespace, each.pod)), wanted);
    assert.deepEqual(content(await create(namespace, expected)), wanted, 'injected again');
    if (Object.hasOwn((each.pod as ApiObject).metadata, 'generateName')) return;
    const [applied] = await cluster
      .get()
      .api.apply([withMetadata(withServiceAccount(each.pod), { namespace })], { dryRun: true });
    assert.ok(applied !== undefined);
    assert.deepEqual(content(applied), wanted, 'applied');
  });
}

for (const each of CASES.filter(({ restricted }) => restricted))
  test(`restricted Pod Security admits the Pod ${each.name}`, { skip }, async () => {
    await create(RESTRICTED, expectedPod(goldenResult(each.name), each));
  });

test('restricted Pod Security refuses a Pod whose redirection needs NET_ADMIN', { skip }, async () => {
  const result = goldenResult('plain');
  assert.ok('pod' in result);
  await assert.rejects(create(RESTRICTED, result.pod), /violates PodSecurity .*mesh-init/);
});
