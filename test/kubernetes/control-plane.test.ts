/** The control plane of the tests in this folder. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, createApi, kubernetesUnavailable, startKubernetes } from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? false;

test('an API server keeps its objects when it is killed, and authorizes its users', { skip }, async (t) => {
  const cluster = await startKubernetes(t);
  const namespace = await cluster.newNamespace();
  const [account] = await cluster.api.apply([
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'web', namespace } },
  ]);
  assert.ok(account?.metadata.uid);

  const token = await cluster.serviceAccountToken({ namespace, name: 'web', audiences: ['mesh-ca'] });
  const review = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenReview',
    spec: { token, audiences: ['mesh-ca'] },
  };
  const reviewed = await cluster.api.request({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    body: review,
  });
  const { status } = reviewed.json() as { status: { authenticated: boolean; user: { username: string } } };
  assert.equal(status.user.username, `system:serviceaccount:${namespace}:web`);

  // It has no rights.
  const user = createApi(t, cluster.as(cluster.userCertificate('jane', ['developers'])));
  const refused = (error: unknown) => error instanceof ApiError && error.status === 403 && /"jane"/.test(error.message);
  await assert.rejects(user.get(`/api/v1/namespaces/${namespace}/serviceaccounts`), refused);

  await cluster.apiServer.kill();
  await cluster.apiServer.start();
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/web`;
  assert.equal((await cluster.api.get(path)).metadata.uid, account.metadata.uid);

  // EndpointSlices, unlike Endpoints of a configuration directory, must not contain loopback addresses.
  const slice = (address: string) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', namespace, labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
  });
  await assert.rejects(cluster.api.apply([slice('127.0.0.1')]), /loopback/);
  await cluster.api.apply([slice('10.244.0.7')]);

  await cluster.compact();
  const watch = `/api/v1/namespaces/${namespace}/serviceaccounts?watch=1&timeoutSeconds=1&resourceVersion=1`;
  assert.match((await cluster.api.request({ path: watch })).body, /"code":410/);
});
