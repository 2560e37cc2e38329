/**
 * Machines that register as workloads of a WorkloadGroup, on a real API server and under the permissions of
 * `deploy/rbac.yaml`: objects, their status, and replicas that take over.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { HEALTH_TYPE } from '../../src/agent/xds-proxy/types.ts';
import { encodeSotwRequest } from '../../src/xds/testing/content.ts';
import { channel, client, stream } from '../e2e/support/identity-calls.ts';
import {
  createScope,
  type Discovery,
  discoveryPorts,
  eventually,
  programFile,
  startDiscovery,
  tempDir,
} from '../harness/index.ts';
import {
  type ApiObject,
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? false;
const API = 'networking.mesh.io/v1alpha3';
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/mesh-system/leases/meshd-workload-entries';
const ADDRESS = '192.0.2.7';
const GROUP_ANNOTATION = 'mesh.io/autoRegistrationGroup';
/** Waits include that of a Lease whose holder was killed, 15 s. */
const LONG = { timeoutMs: 60_000 };

interface Entry extends ApiObject {
  readonly spec: object;
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

describe('registration of workloads in a cluster', { skip }, () => {
  const owner = createScope();
  const replicas = new Map<string, Discovery>();
  let cluster: Kubernetes;
  let namespace = '';
  let folder = '';
  let [token, root] = ['', ''];

  before(async () => {
    cluster = await startKubernetes(owner, { definitions: true });
    namespace = await cluster.newNamespace('shop');
    const metadata = { name: 'web', namespace };
    const spec = {
      metadata: { labels: { app: 'web' } },
      template: { serviceAccount: 'web' },
      probe: { tcpSocket: { port: 80 } },
    };
    await cluster.api.apply([
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
      { apiVersion: API, kind: 'WorkloadGroup', metadata, spec },
    ]);
    const kubeconfig = await discoveryKubeconfig(owner, cluster);
    const env = { CTL_WORKLOAD_ENTRY_GRACE_PERIOD: '2s' };
    const start = async (name: string) => {
      const ports = await discoveryPorts();
      replicas.set(name, await startDiscovery(owner, { kubeconfig, ports, env: { ...env, POD_NAME: name } }));
    };
    await Promise.all(['one', 'two'].map(start));
    folder = join(await tempDir(owner), 'vm');
  });
  after(() => owner.close());

  const pathOf = (name: string) =>
    cluster.api.path({ apiVersion: API, kind: 'WorkloadEntry', metadata: { name, namespace } });
  const entry = async (name = `web-${ADDRESS}`): Promise<Entry | undefined> => {
    const answer = await cluster.api.request({ method: 'GET', path: await pathOf(name) });
    return answer.status === 200 ? (answer.json() as Entry) : undefined;
  };
  const annotation = async (key: string): Promise<string | undefined> => {
    const annotations = (await entry())?.metadata.annotations ?? {};
    return (annotations as Readonly<Record<string, string>>)[`mesh.io/${key}`];
  };
  const leader = async () => {
    const { spec } = (await cluster.api.get(LEASE)) as unknown as { spec: { holderIdentity?: string } };
    return spec.holderIdentity?.split('_')[0] ?? '';
  };
  const connect = (replica: string) => {
    const from = client(owner, replicas.get(replica)?.ports.secure ?? 0, channel({ root }));
    const metadata = { AUTO_REGISTER_GROUP: 'web' };
    return stream(from, { namespace, pod: 'vm', address: ADDRESS, metadata }, token, 300);
  };

  test('issue-workload takes token and root certificates from the cluster', async () => {
    const kubeconfig = await cluster.kubeconfig(owner);
    const words = ['issue-workload', '--kubeconfig', kubeconfig, '-n', namespace, '--group', 'web', '-o', folder];
    const issue = [programFile('ctl-discovery'), ...words, '--discovery-address', 'meshd.mesh-system.svc:15012'];
    const run = () =>
      new Promise<void>((resolve, reject) => {
        const child = spawn(process.execPath, issue, { stdio: ['ignore', 'ignore', 'pipe'] });
        let errors = '';
        child.stderr.on('data', (chunk: Buffer) => {
          errors += chunk;
        });
        child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(errors))));
      });
    // The leader writes the root certificates into the namespace.
    await eventually(run, LONG);
    token = (await readFile(join(folder, 'token'), 'utf8')).trim();
    root = await readFile(join(folder, 'root-cert.pem'), 'utf8');
  });

  test('a connected workload has an object with its health, which moves with it when the leader is killed', async () => {
    const first = await eventually(async () => {
      const name = await leader();
      assert.ok(replicas.has(name));
      return name;
    }, LONG);
    const second = first === 'one' ? 'two' : 'one';
    const { call } = connect(first);
    const made = await eventually(async () => (await entry()) ?? assert.fail('no entry'));
    assert.deepEqual(made.spec, { address: ADDRESS, labels: { app: 'web' }, serviceAccount: 'web' });
    assert.equal(await annotation('autoRegistrationGroup'), 'web');
    const healthy = async () => (await entry())?.status?.conditions?.find(({ type }) => type === 'Healthy')?.status;
    assert.equal(await healthy(), undefined);
    call.write(encodeSotwRequest({ typeUrl: HEALTH_TYPE }));
    await eventually(async () => assert.equal(await healthy(), 'True'));
    call.write(encodeSotwRequest({ typeUrl: HEALTH_TYPE, error: 'connection refused' }));
    await eventually(async () => assert.equal(await healthy(), 'False'));

    await replicas.get(first)?.kill();
    const other = connect(second);
    await eventually(async () =>
      assert.match((await annotation('workloadController')) ?? '', new RegExp(`^${second}_`)),
    );
    assert.equal((await entry())?.metadata.uid, made.metadata.uid);
    // Left by the replica that was killed: the next leader removes it, and not the entry that somebody has written.
    const disconnected = { [GROUP_ANNOTATION]: 'web', 'mesh.io/disconnectedAt': new Date(0).toISOString() };
    const written = (name: string, annotations: object, address: string) => {
      return { apiVersion: API, kind: 'WorkloadEntry', metadata: { name, namespace, annotations }, spec: { address } };
    };
    await cluster.api.apply([written('left', disconnected, '192.0.2.8'), written('own', {}, '192.0.2.9')]);
    await eventually(async () => assert.equal(await entry('left'), undefined), LONG);
    assert.ok(await entry('own'));
    assert.equal((await entry())?.metadata.uid, made.metadata.uid);

    other.call.cancel();
    await eventually(async () => assert.equal(await entry(), undefined));
  });
});
