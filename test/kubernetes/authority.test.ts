/**
 * The certificate authority of two replicas on a real API server, under the permissions of ctl-discovery: one root in a
 * Secret, root certificates in every namespace, and an elected replica that keeps both.
 */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ecKey } from '../../src/security/authority/testing/fixtures.ts';
import { certificate, channel, client } from '../e2e/support/identity-calls.ts';
import { createScope, type Discovery, discoveryPorts, eventually, startDiscovery } from '../harness/index.ts';
import {
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  meshRoot,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? false;
const SYSTEM = '/api/v1/namespaces/mesh-system';
const SECRET = `${SYSTEM}/secrets/mesh-ca-secret`;
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/mesh-system/leases/meshd-root-certificates';
const KEYS = ecKey('P-256');

/** A root is replaced from the middle of its life on: there is time to see it trusted while the next one signs. */
const SHORT_LIVED = {
  CA_SELF_SIGNED_CA_CERT_TTL: '80s',
  // Of the more than three minutes of such a root, which begin two minutes before it is made.
  CA_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE: '20',
  CA_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL: '8s',
  CA_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR: 'false',
};

/** Between two requests to sign: short enough to notice a gap, long enough to leave cores free. */
const PAUSE_MS = 20;

interface Replica extends Discovery {
  readonly name: string;
}

describe('the certificate authority of two replicas', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  let kubeconfig = '';
  let namespace = '';
  let token = '';
  let replicas: readonly Replica[] = [];

  before(async () => {
    cluster = await startKubernetes(owner);
    kubeconfig = await discoveryKubeconfig(owner, cluster);
    namespace = await cluster.newNamespace('shop');
    await cluster.api.apply([{ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'web', namespace } }]);
    token = await cluster.serviceAccountToken({ namespace, name: 'web', audiences: ['mesh-ca'] });
    replicas = await Promise.all(['one', 'two'].map((name) => start(name)));
  });
  after(() => owner.close());

  async function start(name: string, env: Readonly<Record<string, string>> = {}, waitReady = true): Promise<Replica> {
    const ports = await discoveryPorts();
    const discovery = await startDiscovery(owner, {
      kubeconfig,
      ports,
      waitReady,
      env: { POD_NAME: name, CTL_DEBUG_AUTH: 'true', ...env },
    });
    return { ...discovery, name };
  }

  /** The chain of a new certificate: leaf first, root last. */
  const sign = (replica: Replica, root: string): Promise<readonly string[]> =>
    certificate(client(owner, replica.ports.secure ?? 0, channel({ root })), KEYS, token);

  const published = async (name: string): Promise<string> => {
    const { data } = await cluster.api.get(`/api/v1/namespaces/${name}/configmaps/mesh-ca-root-cert`);
    return (data as Record<string, string>)['root-cert.pem'] ?? '';
  };

  const remove = (path: string) => cluster.api.request({ method: 'DELETE', path });

  const leader = async (): Promise<string> => {
    const { spec } = await cluster.api.get(LEASE);
    return String((spec as Record<string, unknown>).holderIdentity).split('_')[0] ?? '';
  };

  const editSecret = (data: Readonly<Record<string, string>>) =>
    cluster.api.patch(
      { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'mesh-ca-secret', namespace: 'mesh-system' } },
      {
        data: Object.fromEntries(
          Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')]),
        ),
      },
    );

  test('signs with one root, which every namespace has', async () => {
    const root = await meshRoot(cluster);
    for (const replica of replicas) {
      const [leaf = '', ...path] = await sign(replica, root);
      assert.deepEqual(path, [root]);
      assert.ok(new X509Certificate(leaf).verify(new X509Certificate(root).publicKey));
    }
    const later = await cluster.newNamespace('later');
    for (const name of [namespace, later, 'mesh-system', 'default']) {
      await eventually(async () => assert.equal(await published(name), root), { what: `the root in ${name}` });
    }
    const system = await cluster.api.request({ path: '/api/v1/namespaces/kube-system/configmaps/mesh-ca-root-cert' });
    assert.equal(system.status, 404);
  });

  test('keeps signing with a damaged Secret, which it does not touch, and says which key is wrong', async () => {
    const root = await meshRoot(cluster);
    const before = await cluster.api.get(SECRET);
    await editSecret({ 'ca-key.pem': 'banana' });
    const damaged = await cluster.api.get(SECRET);
    const line = /Secret\/mesh-system\/mesh-ca-secret: data\[ca-key\.pem\]: holds a key that cannot be read/;
    await eventually(() => {
      for (const replica of replicas) assert.match(replica.output(), line);
    });
    for (const replica of replicas) assert.equal((await sign(replica, root)).at(-1), root);
    const late = await start('late', {}, false);
    await eventually(() =>
      assert.match(late.output(), /not ready, because its root certificate cannot be used: Secret/),
    );
    const ready = await late.http('/ready');
    assert.equal(ready.status, 503);
    assert.match(ready.body, /waiting for .*the certificate authority/);
    assert.equal((await cluster.api.get(SECRET)).metadata.resourceVersion, damaged.metadata.resourceVersion);

    const { 'ca-key.pem': key = '' } = before.data as Record<string, string>;
    await editSecret({ 'ca-key.pem': Buffer.from(key, 'base64').toString() });
    await late.waitReady();
    await late.stop();
    for (const replica of replicas) {
      await eventually(() => assert.match(replica.output(), /its stored state can be read again/));
      assert.ok(!replica.output().includes('PRIVATE KEY'));
    }
  });

  test('writes a deleted Secret again with its root', async () => {
    const root = await meshRoot(cluster);
    const before = (await cluster.api.get(SECRET)).data;
    await remove(SECRET);
    await eventually(async () => assert.deepEqual((await cluster.api.get(SECRET)).data, before));
    for (const replica of replicas) assert.equal((await sign(replica, root)).at(-1), root);
  });

  test('signs at the other replica while the leader is killed, and that one then repairs ConfigMaps', async () => {
    const root = await meshRoot(cluster);
    const first = await leader();
    const other = replicas.find(({ name }) => name !== first) as Replica;
    const from = client(owner, other.ports.secure ?? 0, channel({ root }));
    let signed = 0;
    let done = false;
    const signing = (async () => {
      for (; !done; signed++) {
        assert.equal((await certificate(from, KEYS, token)).at(-1), root);
        await delay(PAUSE_MS);
      }
    })();
    await replicas.find(({ name }) => name === first)?.kill();
    await remove(`/api/v1/namespaces/${namespace}/configmaps/mesh-ca-root-cert`);
    const repaired = async () => assert.equal(await published(namespace), root);
    await eventually(repaired, { timeoutMs: 90_000, what: 'the ConfigMap is repaired by the new leader' });
    assert.equal(await leader(), other.name);
    const { body } = await other.http('/debug/leaderz');
    const [shown] = (JSON.parse(body) as Record<string, unknown>[]).filter(({ task }) => task === 'root-certificates');
    assert.match(String(shown?.holder), new RegExp(`^${other.name}_`));
    assert.deepEqual([shown?.lease, shown?.leading], ['mesh-system/meshd-root-certificates', true]);
    const until = signed + 3;
    await eventually(() => assert.ok(signed >= until));
    done = true;
    await signing;
    replicas = [other];
  });

  test('does not begin a new authority for a mesh whose Secret was lost while no replica ran', async () => {
    await Promise.all(replicas.map((replica) => replica.stop()));
    await remove(SECRET);
    const refused = await start('refused', {}, false);
    const line = /is missing, though ConfigMap mesh-system\/mesh-ca-root-cert of the same authority exists/;
    await eventually(() => assert.match(refused.output(), line));
    await remove(`${SYSTEM}/configmaps/mesh-ca-root-cert`);
    await refused.waitReady();
    await refused.stop();
    await remove(SECRET);
    await remove(`${SYSTEM}/configmaps/mesh-ca-root-cert`);
  });

  test('replaces its root in steps that both replicas and all namespaces follow', async () => {
    replicas = await Promise.all(['three', 'four'].map((name) => start(name, SHORT_LIVED)));
    const first = await meshRoot(cluster);
    await eventually(async () => assert.equal((await published(namespace)).split('BEGIN').length, 3), {
      timeoutMs: 120_000,
      what: 'the next root is announced',
    });
    const bundle = await published(namespace);
    assert.ok(bundle.startsWith(first));
    const next = bundle.slice(first.length);
    for (const replica of replicas) {
      await eventually(async () => assert.equal((await sign(replica, bundle)).at(-1), next), { timeoutMs: 60_000 });
    }
    assert.equal(await meshRoot(cluster), next);
    await eventually(async () => assert.ok((await published(namespace)).startsWith(next)));
    assert.ok((await published(namespace)).includes(first), 'the former root stays trusted');
  });
});
