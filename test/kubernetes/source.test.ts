/** The source of a real API server: failures of the server remove nothing that is in force. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { readKubeconfig } from '../../src/kubernetes/index.ts';
import { startRelay } from '../../src/kubernetes/testing/relay.ts';
import { createScope, eventually } from '../harness/index.ts';
import { type Kubernetes, kubernetesUnavailable, startKubernetes } from '../harness/kubernetes/index.ts';
import { GATEWAYS, ISTIO_RULES, POLICIES, ROUTES } from './support/definitions.ts';
import { followSource } from './support/followed-source.ts';

const skip = kubernetesUnavailable() ?? false;

const service = (name: string, namespace: string) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace },
  spec: { ports: [{ name: 'http', port: 80 }] },
});
const route = (name: string, namespace: string, host = 'web') => ({
  apiVersion: 'networking.mesh.io/v1',
  kind: 'VirtualService',
  metadata: { name, namespace },
  spec: { hosts: [host], http: [{ route: [{ destination: { host } }] }] },
});
const rule = (resources: readonly string[], apiGroups: readonly string[]) => ({
  resources,
  apiGroups,
  verbs: ['list', 'watch'],
});
/** Rights to read Kubernetes' own kinds. */
const CORE_RULES = [
  rule(['namespaces', 'nodes', 'pods', 'services', 'serviceaccounts'], ['']),
  rule(['endpointslices'], ['discovery.k8s.io']),
];
const holds = (condition: () => boolean, what: string) =>
  eventually(() => assert.ok(condition()), { timeoutMs: 60_000, what });

describe('the source of a real API server', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;

  before(async () => {
    cluster = await startKubernetes(owner);
    await cluster.api.apply([ROUTES, POLICIES, ISTIO_RULES, GATEWAYS]);
  });
  after(() => owner.close());

  test('lists all kinds and follows changes and deletions', async (t) => {
    const namespace = await cluster.newNamespace();
    await cluster.api.apply([service('web', namespace), route('web', namespace)]);
    const { source, has, store, changes } = await followSource(t, cluster);
    await source.synced;
    assert.ok(
      has(`Service/${namespace}/web`) && has(`VirtualService/${namespace}/web`) && has(`Namespace//${namespace}`),
    );
    const { origin } = store.get(`VirtualService/${namespace}/web`) ?? {};
    assert.equal(origin?.generation, 1);
    assert.match(`${origin?.uid} ${origin?.resourceVersion}`, /^[0-9a-f-]{36} \d+$/);
    await cluster.api.apply([route('web', namespace, 'other')]);
    await holds(() => store.get(`VirtualService/${namespace}/web`)?.origin.generation === 2, 'the route changes');
    await cluster.api.apply([service('late', namespace)]);
    await cluster.api.delete(service('web', namespace));
    await holds(() => has(`Service/${namespace}/late`) && !has(`Service/${namespace}/web`), 'services come and go');
    assert.ok(changes.includes(`-Service/${namespace}/web`));
  });

  test('loses nothing when the API server is killed and restarted', async (t) => {
    const namespace = await cluster.newNamespace();
    await cluster.api.apply([service('web', namespace), route('web', namespace)]);
    const { source, has, changes, lines } = await followSource(t, cluster);
    await source.synced;
    await cluster.apiServer.kill();
    await holds(() => !source.health().ok, 'the source notices');
    await cluster.apiServer.start();
    await cluster.api.apply([route('late', namespace)]);
    await holds(() => has(`VirtualService/${namespace}/late`) && source.health().ok, 'the source resumes');
    assert.deepEqual(
      changes.filter((change) => change.startsWith('-')),
      [],
    );
    assert.equal(lines.filter((line) => /cannot be reached/.test(line)).length, 1);
    assert.equal(lines.filter((line) => /can be reached again/.test(line)).length, 1);
  });

  test('loses nothing when etcd is compacted while the server is unreachable', async (t) => {
    const relay = await startRelay(Number(new URL(cluster.url).port));
    t.after(() => relay.close());
    const direct = await readKubeconfig(await cluster.kubeconfig(t));
    const access = { ...direct, server: new URL(`https://127.0.0.1:${relay.port}`) };
    const namespace = await cluster.newNamespace();
    await cluster.api.apply([service('web', namespace), service('old', namespace), route('web', namespace)]);
    const { source, has, changes, lists } = await followSource(t, cluster, { access });
    await source.synced;
    const before = lists.length;
    relay.cut();
    await cluster.api.delete(service('old', namespace));
    await cluster.api.apply([service('new', namespace)]);
    await cluster.compact();
    // The watch cache of the API server would still have the changes.
    await cluster.apiServer.kill();
    await cluster.apiServer.start();
    relay.restore();
    await holds(() => has(`Service/${namespace}/new`) && !has(`Service/${namespace}/old`), 'the difference is seen');
    const deleted = changes.filter((change) => change.startsWith('-'));
    assert.deepEqual(deleted, [`-Service/${namespace}/old`]);
    assert.ok(lists.length > before, 'kinds are listed again');
  });

  test('removes the documents of a kind with its definition, and reads them again with a new one', async (t) => {
    const namespace = await cluster.newNamespace();
    const rule = {
      apiVersion: 'networking.istio.io/v1beta1',
      kind: 'DestinationRule',
      metadata: { name: 'web', namespace },
      spec: { host: 'web' },
    };
    await cluster.api.apply([rule]);
    const { source, has, lines } = await followSource(t, cluster);
    await source.synced;
    const key = `DestinationRule/${namespace}/web`;
    assert.ok(has(key));
    await cluster.api.delete(ISTIO_RULES);
    await holds(() => !has(key), 'the document is removed');
    await holds(
      () =>
        lines.some((line) =>
          /destinationrules.networking.istio.io: the definition and all objects of the kind were deleted/.test(line),
        ),
      'the log says so',
    );
    await cluster.api.apply([ISTIO_RULES]);
    await cluster.api.apply([rule]);
    await holds(() => has(key), 'the new document is read');
  });

  /** A user with these rights. */
  async function reader(namespace: string, rules: readonly object[]) {
    const name = `reader-${namespace}`;
    const apiGroup = 'rbac.authorization.k8s.io';
    const role = { apiVersion: `${apiGroup}/v1`, kind: 'ClusterRole', metadata: { name } };
    const roleRef = { apiGroup, kind: 'ClusterRole', name };
    const subjects = [{ apiGroup, kind: 'User', name }];
    const binding = { apiVersion: `${apiGroup}/v1`, kind: 'ClusterRoleBinding', metadata: { name }, roleRef, subjects };
    const allow = (allowed: readonly object[]) => cluster.api.apply([{ ...role, rules: allowed }]);
    await allow(rules);
    await cluster.api.apply([binding]);
    return { credential: cluster.userCertificate(name), allow };
  }

  test('continues without a kind that its role forbids, and reads it once it is allowed', async (t) => {
    const namespace = await cluster.newNamespace();
    await cluster.api.apply([service('web', namespace), route('web', namespace)]);
    const rules = [...CORE_RULES, rule(['authorizationpolicies'], ['security.mesh.io'])];
    const { credential, allow } = await reader(namespace, rules);
    const { source, has, lines } = await followSource(t, cluster, { credential });
    await source.synced;
    assert.ok(has(`Service/${namespace}/web`) && !has(`VirtualService/${namespace}/web`));
    const logged = () => lines.filter((line) => line.startsWith('VirtualService'));
    await holds(() => logged().length === 1, 'the log names the kind');
    assert.match(
      logged()[0] ?? '',
      /^VirtualService.networking.mesh.io: cannot list: HTTP 403 Forbidden: .*virtualservices/,
    );
    await allow([...rules, rule(['virtualservices'], ['networking.mesh.io'])]);
    await holds(() => has(`VirtualService/${namespace}/web`), 'the kind is read');
  });

  test('reads the Secrets that Gateways name with a right to these names alone', async (t) => {
    const namespace = await cluster.newNamespace();
    const secret = (name: string) => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace },
      data: { text: 'eA==' },
    });
    const tls = { mode: 'SIMPLE', credentialName: 'web-tls' };
    const server = { port: { number: 443, name: 'https', protocol: 'HTTPS' }, hosts: ['*'], tls };
    const gateway = {
      apiVersion: 'networking.mesh.io/v1',
      kind: 'Gateway',
      metadata: { name: 'edge', namespace },
      spec: { selector: { app: 'edge' }, servers: [server] },
    };
    await cluster.api.apply([secret('web-tls'), secret('database'), gateway]);
    const secrets = { ...rule(['secrets'], ['']), resourceNames: ['web-tls', 'web-tls-cacert'] };
    const mesh = [rule(['authorizationpolicies'], ['security.mesh.io']), rule(['gateways'], ['networking.mesh.io'])];
    const { credential } = await reader(namespace, [...CORE_RULES, ...mesh, secrets]);
    const { source, has, lines } = await followSource(t, cluster, { credential });
    await source.synced;
    assert.ok(has(`Secret/${namespace}/web-tls`) && !has(`Secret/${namespace}/database`));
    assert.deepEqual(
      lines.filter((line) => line.startsWith('Secret')),
      [],
    );
  });

  test('resumes watches that end every few seconds without listing again', async (t) => {
    const namespace = await cluster.newNamespace();
    const { source, has, lists } = await followSource(t, cluster, { watchSeconds: 1 });
    await source.synced;
    const before = lists.length;
    for (const name of ['a', 'b', 'c', 'd']) {
      await cluster.api.apply([service(name, namespace)]);
      await holds(() => has(`Service/${namespace}/${name}`), 'the service is seen');
      await new Promise((resolve) => setTimeout(resolve, 800));
    }
    assert.equal(lists.length, before);
  });
});
