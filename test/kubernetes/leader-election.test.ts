/** Leader election on a real API server, under the permissions of ctl-discovery: replicas as processes' parts. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createConnection } from '../../src/discovery/clusters/cluster.ts';
import { createLeadership, type Leadership } from '../../src/discovery/clusters/leadership.ts';
import { KubernetesClient, readKubeconfig } from '../../src/kubernetes/index.ts';
import { createScope, type Discovery, eventually, startDiscovery } from '../harness/index.ts';
import {
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';
import { SimProxy } from '../harness/sim-proxy.ts';

const skip = kubernetesUnavailable() ?? false;
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/mesh-system/leases';

describe('leader election on an API server', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  let kubeconfig: string;

  before(async () => {
    cluster = await startKubernetes(owner);
    kubeconfig = await discoveryKubeconfig(owner, cluster);
  });
  after(() => owner.close());

  /** A replica with a connection of its own; `cut` ends the connection without notice. */
  async function replica(name: string, revision = ''): Promise<{ leadership: Leadership; cut: () => void }> {
    const connection = createConnection(await readKubeconfig(kubeconfig));
    const settings = { namespace: 'mesh-system', revision };
    const leadership = createLeadership(new KubernetesClient(connection), settings, { POD_NAME: name });
    owner.after(async () => {
      await leadership.close();
      connection.close();
    });
    return { leadership, cut: () => connection.close() };
  }

  test('a replica that gives up, is cut off, or loses the Lease is followed by another', async () => {
    const [one, two] = [await replica('one'), await replica('two')];
    const [first, second] = [one, two].map(({ leadership }) => leadership.run('test', () => {}));
    await eventually(() => assert.ok(first?.isLeading || second?.isLeading));
    assert.ok(!(first?.isLeading && second?.isLeading));
    const [leader, follower] = first?.isLeading ? [first, second] : [second, first];

    await leader?.close();
    await eventually(() => assert.ok(follower?.isLeading), { what: 'a Lease that was given up' });
    const lease = await cluster.api.get(`${LEASES}/meshd-test`);
    const { holderIdentity, leaseTransitions } = (lease as unknown as { spec: Record<string, unknown> }).spec;
    assert.match(String(holderIdentity), first?.isLeading ? /^one_/ : /^two_/);
    // Giving up is not a transition.
    assert.equal(leaseTransitions, 1);

    const three = await replica('three');
    const third = three.leadership.run('test', () => {});
    (first?.isLeading ? one : two).cut();
    await eventually(() => assert.ok(third.isLeading), { timeoutMs: 60_000, what: 'the Lease of a lost leader' });
    assert.equal(follower?.isLeading, false);

    await cluster.api.request({ method: 'DELETE', path: `${LEASES}/meshd-test` });
    await eventually(async () => {
      const { spec } = (await cluster.api.get(`${LEASES}/meshd-test`)) as unknown as { spec: Record<string, unknown> };
      assert.match(String(spec.holderIdentity), /^three_/);
    });
    assert.ok(third.isLeading);
  });

  test('revisions elect leaders of their own, except for tasks that they share', async () => {
    const [stable, canary] = [await replica('stable', 'default'), await replica('canary', 'canary')];
    const own = [stable, canary].map(({ leadership }) => leadership.run('own', () => {}));
    const shared = [stable, canary].map(({ leadership }) => {
      return leadership.run('shared', () => {}, { acrossRevisions: true });
    });
    await eventually(() => {
      assert.ok(own.every(({ isLeading }) => isLeading));
      assert.equal(shared.filter(({ isLeading }) => isLeading).length, 1);
    });
    const leases = (lease: { lease: string }) => lease.lease;
    assert.deepEqual(stable.leadership.status().map(leases), ['mesh-system/meshd-own', 'mesh-system/meshd-shared']);
    assert.deepEqual(canary.leadership.status().map(leases), [
      'mesh-system/meshd-own-canary',
      'mesh-system/meshd-shared',
    ]);
  });

  describe('of the program', () => {
    const TASKS = ['certificate-authority', 'ingress-status', 'root-certificates', 'webhook-configurations'].map(
      (task) => `meshd-${task}`,
    );
    const named = (discovery: Discovery, line: RegExp) =>
      [...discovery.output().matchAll(line)].map(([, name]) => name);
    const startLeader = async () => {
      const discovery = await startDiscovery(owner, { kubeconfig });
      const leads = () => named(discovery, /became the leader: holds Lease mesh-system\/(\S+)/g).sort();
      await eventually(() => assert.deepEqual(leads(), TASKS), { timeoutMs: 60_000, what: 'it leads all tasks' });
      return discovery;
    };

    test('a replica that is stopped leads until its streams have ended, then gives up all Leases', async () => {
      const discovery = await startLeader();
      const proxies = Array.from({ length: 20 }, (_, index) => {
        const id = `sidecar~10.0.0.${index + 1}~pod-${index}.default~default.svc.cluster.local`;
        return new SimProxy({ port: discovery.ports.grpc, mode: 'delta', id }).connect();
      });
      await eventually(() => assert.ok(proxies.every((proxy) => proxy.complete())));
      assert.equal((await discovery.stop()).code, 0);
      for (const proxy of proxies) proxy.close();

      const lines = discovery.output().split('\n');
      const lastStream = lines.findLastIndex((line) => line.includes('disconnected sidecar~'));
      const firstLease = lines.findIndex((line) => line.includes('released Lease'));
      assert.ok(0 < lastStream && lastStream < firstLease, lines.join('\n'));
      for (const name of TASKS) {
        const { spec } = (await cluster.api.get(`${LEASES}/${name}`)) as unknown as { spec: Record<string, unknown> };
        assert.equal(spec.holderIdentity ?? '', '', name);
      }
    });

    test('tries to give up all Leases at the same time, which matters when the API server hangs', async (t) => {
      const discovery = await startLeader();
      cluster.apiServer.pause();
      t.after(() => cluster.apiServer.resume());
      assert.equal((await discovery.stop()).code, 0);
      // One after the other, the later Leases would be lost before.
      assert.deepEqual(named(discovery, /Lease mesh-system\/(\S+) could not be released/g).sort(), TASKS);
    });
  });
});
