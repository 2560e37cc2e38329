/** What the controller of the Gateway API allows the proxies of Gateways to read, with a real API server. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createScope, eventually } from '../harness/index.ts';
import {
  conformanceUnavailable,
  createApi,
  type Kubernetes,
  kubernetesUnavailable,
} from '../harness/kubernetes/index.ts';
import {
  accepted,
  type Fields,
  gateway,
  NS,
  readObject,
  SECRETS_ROLE,
  startController,
  startGatewayCluster,
} from './support/gateway-controller.ts';

const skip = kubernetesUnavailable() ?? conformanceUnavailable() ?? false;

describe('the rights of Gateways', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;

  before(async () => {
    cluster = await startGatewayCluster(owner);
  });
  after(() => owner.close());

  const read = (apiVersion: string, kind: string, name: string) => readObject(cluster, apiVersion, kind, name);

  test('a Gateway may read Secrets only while a listener has a certificate in its namespace', async (t) => {
    const https = (...certificateRefs: readonly object[]) => ({
      listeners: [{ name: 'https', port: 443, protocol: 'HTTPS', tls: { certificateRefs } }],
    });
    const binding = () => read('rbac.authorization.k8s.io/v1', 'RoleBinding', 'reader-meshd');
    await cluster.api.apply([gateway('reader')]);
    const running = await startController(t, cluster, [accepted('reader')]);
    await eventually(() => read('v1', 'Service', 'reader-meshd'));
    await assert.rejects(binding());

    await cluster.api.apply([gateway('reader', https({ name: 'pair' }))]);
    const { roleRef, subjects } = await eventually(binding);
    assert.deepEqual(
      [(roleRef as Fields).kind, (roleRef as Fields).name, subjects],
      ['ClusterRole', SECRETS_ROLE, [{ kind: 'ServiceAccount', name: 'reader-meshd', namespace: NS }]],
    );
    const token = await cluster.serviceAccountToken({ namespace: NS, name: 'reader-meshd' });
    const account = createApi(t, cluster.as({ token }));
    const secrets = (namespace: string) => account.request({ path: `/api/v1/namespaces/${namespace}/secrets` });
    await eventually(async () => assert.equal((await secrets(NS)).status, 200));
    assert.equal((await secrets('default')).status, 403);

    await cluster.api.apply([gateway('reader', https({ name: 'pair', namespace: 'default' }))]);
    await eventually(() => assert.rejects(binding()));
    await eventually(async () => assert.equal((await secrets(NS)).status, 403));
    // The API server may still prepare kinds of routes, which is reported, too.
    const about = running.log.filter((line) => !line.includes('storage is (re)initializing'));
    assert.deepEqual(about, ['RoleBinding edge/reader-meshd was deleted: its Gateway no longer needs it {}']);
  });

  test('a Gateway is bound to the role of another revision, and to no role that is not for gateways', async (t) => {
    const tls = { certificateRefs: [{ name: 'pair' }] };
    const listeners = [{ name: 'https', port: 443, protocol: 'HTTPS', tls }];
    const bound = async () =>
      ((await read('rbac.authorization.k8s.io/v1', 'RoleBinding', 'rebound-meshd')).roleRef as Fields).name;
    await cluster.api.apply([gateway('rebound', { listeners })]);
    const before = await startController(t, cluster, [accepted('rebound')], SECRETS_ROLE);
    await eventually(async () => assert.equal(await bound(), SECRETS_ROLE));
    await before.close();

    // Its account may not give these rights away: the API server refuses the RoleBinding.
    const greedy = await startController(t, cluster, [accepted('rebound')], 'cluster-admin');
    await eventually(() =>
      assert.match(greedy.log.join('\n'), /Gateway edge\/rebound is not deployed as specified: .*not currently held/s),
    );
    await assert.rejects(bound());
    await greedy.close();

    await cluster.api.apply([
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRole',
        metadata: { name: 'canary-gateway-secrets' },
        rules: [],
      },
    ]);
    await startController(t, cluster, [accepted('rebound')], 'canary-gateway-secrets');
    await eventually(async () => assert.equal(await bound(), 'canary-gateway-secrets'));
  });
});
