/** When a Gateway is programmed: with Pods that end, that start, and that are not there, and two replicas of the mesh. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createScope, eventually, netnsUnavailable, tempDir } from '../harness/index.ts';
import {
  conformanceUnavailable,
  helmUnavailable,
  type Image,
  kubernetesUnavailable,
  type Mesh,
  programImage,
  startMesh,
} from '../harness/kubernetes/index.ts';

const skip =
  kubernetesUnavailable() ?? helmUnavailable() ?? conformanceUnavailable() ?? (await netnsUnavailable()) ?? false;

const NS = 'edge';
const GATEWAY = `/apis/gateway.networking.k8s.io/v1/namespaces/${NS}/gateways/web`;
const IMAGE = 'registry.example/ctl-agent:1';

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

interface Status {
  readonly conditions: readonly Condition[];
  readonly listeners: readonly { readonly conditions: readonly Condition[] }[];
}

describe('the condition Programmed of a Gateway, with two replicas of the control plane', { skip }, () => {
  const owner = createScope();
  let mesh: Mesh;
  let crashes = true;

  before(async () => {
    const log = join(await tempDir(owner), 'agents.log');
    const agent = programImage('ctl-agent', { log });
    const image: Image = (container) => (crashes ? ['sh', '-c', 'exit 3'] : agent(container));
    const gatewayApi = { enabled: true, image: IMAGE, readSecrets: false };
    mesh = await startMesh(owner, { gatewayApi: true, values: { gatewayApi }, images: { [IMAGE]: image } });
  });
  after(() => owner.close());

  const output = () => mesh.logs.map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : '')).join('\n');
  const programmed = async () => {
    const { status } = await mesh.cluster.api.get<{ status: Status }>(GATEWAY);
    const all = [status.conditions, ...status.listeners.map(({ conditions }) => conditions)];
    return all.map((conditions) => conditions.find(({ type }) => type === 'Programmed') ?? assert.fail());
  };
  const is = (status: string, reason: string, message: RegExp) =>
    eventually(
      async () => {
        const found = await programmed();
        assert.deepEqual(
          found.map((condition) => [condition.status, condition.reason]),
          found.map(() => [status, reason]),
          found[0]?.message,
        );
        assert.equal(found.length, 2);
        for (const condition of found) assert.match(condition.message, message);
      },
      { timeoutMs: 90_000 },
    ).catch((cause: unknown) => {
      throw new Error(output(), { cause });
    });
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web-meshd', namespace: NS },
  };

  test('is False while its Pods end again and again, and says so', async () => {
    await mesh.cluster.api.apply([
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NS } },
      {
        apiVersion: 'gateway.networking.k8s.io/v1',
        kind: 'Gateway',
        metadata: {
          name: 'web',
          namespace: NS,
          // It has an address at once.
          annotations: { 'networking.mesh.io/service-type': 'ClusterIP' },
        },
        spec: { gatewayClassName: 'meshd', listeners: [{ name: 'http', port: 80, protocol: 'HTTP' }] },
      },
    ]);
    await is('False', 'CrashLoopBackOff', /no Pod of Deployment web-meshd is ready: container proxy keeps restarting/);
  });

  test('is True once a proxy has acknowledged its listeners, whichever replica it is connected to', async () => {
    crashes = false;
    await is('True', 'Programmed', /proxies are configured/);
  });

  test('is False without Pods', async () => {
    await mesh.cluster.api.patch(deployment, { spec: { replicas: 0 } });
    await is('False', 'Pending', /no Pod of Deployment web-meshd is ready/);
    await mesh.cluster.api.patch(deployment, { spec: { replicas: 1 } });
    await is('True', 'Programmed', /proxies are configured/);
  });
});
