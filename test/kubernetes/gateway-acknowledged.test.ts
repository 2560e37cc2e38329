/**
 * Listeners of a Gateway and what its proxy has acknowledged: two replicas of the control plane, of which one leads,
 * and a real agent and Envoy that are connected to the other one. No kubelet runs the Pod: it is ready throughout.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  type Agent,
  createScope,
  type Discovery,
  discoveryPorts,
  eventually,
  freePorts,
  startAgent,
  startDiscovery,
  tempDir,
} from '../harness/index.ts';
import {
  conformanceUnavailable,
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  meshRoot,
} from '../harness/kubernetes/index.ts';
import { gateway, NS, startGatewayCluster } from './support/gateway-controller.ts';

const skip = kubernetesUnavailable() ?? conformanceUnavailable() ?? false;

const GATEWAY = `/apis/gateway.networking.k8s.io/v1/namespaces/${NS}/gateways/web`;
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/mesh-system/leases';
const ADDRESS = '10.244.9.31';
const LABELS = { 'gateway.networking.k8s.io/gateway-name': 'web' };

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration: number;
}

interface Status {
  readonly conditions: readonly Condition[];
  readonly listeners: readonly { readonly name: string; readonly conditions: readonly Condition[] }[];
}

interface Lease {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: { readonly holderIdentity?: string };
}

describe('listeners of a Gateway whose proxy is connected to a replica that does not lead', { skip }, () => {
  const owner = createScope();
  const replicas = new Map<string, Discovery>();
  let cluster: Kubernetes;
  let agent: Agent;
  let ports: readonly number[] = [];

  /** The listeners with the given names. */
  const apply = (names: readonly string[]) => {
    const listeners = names.map((name, index) => ({ name, port: ports[index], protocol: 'HTTP' }));
    const annotations = { 'networking.mesh.io/service-type': 'ClusterIP' };
    return cluster.api.apply([gateway('web', { listeners }, { annotations })]);
  };
  const leases = async () => (await cluster.api.get<{ items: readonly Lease[] }>(LEASES)).items;
  const reports = async () => (await leases()).filter(({ metadata }) => metadata.name.startsWith('meshd-gateways-'));
  /** Waits for the condition Programmed of the Gateway, and of its listeners. */
  const programmed = (expected: Readonly<Record<string, readonly [string, number]>>, message = /(?:)/) =>
    eventually(
      async () => {
        const { status } = await cluster.api.get<{ status: Status }>(GATEWAY);
        const of = (conditions: readonly Condition[]) =>
          conditions.find(({ type }) => type === 'Programmed') ?? assert.fail('no condition');
        const all: [string, Condition][] = [
          ['web', of(status.conditions)],
          ...status.listeners.map(({ name, conditions }): [string, Condition] => [name, of(conditions)]),
        ];
        const found = all.map(([name, { reason, observedGeneration }]) => [name, [reason, observedGeneration]]);
        assert.deepEqual(Object.fromEntries(found), expected);
        assert.match(all[0]?.[1].message ?? '', message);
      },
      { timeoutMs: 60_000 },
    );
  const stop = async (signal: NodeJS.Signals) =>
    process.kill((await agent.envoyPid()) ?? assert.fail('no Envoy'), signal);

  before(async () => {
    cluster = await startGatewayCluster(owner);
    ports = await freePorts(3);
    const kubeconfig = await discoveryKubeconfig(owner, cluster);
    for (const name of ['first', 'second']) {
      const folder = await tempDir(owner);
      const own = { SELF_SIGNED_CA_DIR: join(folder, 'ca'), CTL_STATE_DIR: join(folder, 'state'), POD_NAME: name };
      const env = { CTL_ENABLED_SERVICE_APIS: 'true', CTL_USE_ENDPOINT_SLICE: 'true', ...own };
      replicas.set(name, await startDiscovery(owner, { kubeconfig, env, ports: await discoveryPorts() }));
    }
  });
  after(() => owner.close());

  test('a first listener is Programmed once it is acknowledged there', async () => {
    await apply(['http']);
    await programmed({ web: ['Pending', 1], http: ['Pending', 1] }, /no Pod of Deployment web-meshd is ready/);
    const account = await eventually(() => cluster.api.get(`/api/v1/namespaces/${NS}/serviceaccounts/web-meshd`));
    const document = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web-1', namespace: NS, labels: LABELS } };
    const spec = { serviceAccountName: account.metadata.name, containers: [{ name: 'proxy', image: 'none' }] };
    const [pod] = await cluster.api.apply([{ ...document, spec }]);
    const ready = { podIP: ADDRESS, podIPs: [{ ip: ADDRESS }], conditions: [{ type: 'Ready', status: 'True' }] };
    await cluster.api.patch(document, { status: ready }, 'status');
    await programmed(
      { web: ['Pending', 1], http: ['Pending', 1] },
      /no ready proxy has acknowledged listener http yet/,
    );

    const leader = (await leases()).find(({ metadata }) => metadata.name === 'meshd-gateway-api')?.spec.holderIdentity;
    const follower = leader?.startsWith('first_') ? 'second' : 'first';
    const [token, root] = [join(await tempDir(owner), 'token'), join(await tempDir(owner), 'root.pem')];
    const boundTo = pod ?? assert.fail('no Pod');
    const bearer = { namespace: NS, name: 'web-meshd', audiences: ['mesh-ca'], boundTo };
    await Promise.all([
      writeFile(token, await cluster.serviceAccountToken(bearer)),
      writeFile(root, await meshRoot(cluster)),
    ]);
    agent = await startAgent(owner, {
      name: 'web-1',
      role: 'router',
      podNamespace: NS,
      address: ADDRESS,
      labels: LABELS,
      discoveryAddress: `127.0.0.1:${replicas.get(follower)?.ports.secure}`,
      env: { CA_TOKEN_FILE: token, CA_ROOT_CA: root, SERVICE_ACCOUNT: 'web-meshd' },
    });
    await programmed({ web: ['Programmed', 1], http: ['Programmed', 1] });
    const [report, ...others] = await reports();
    assert.equal(report?.spec.holderIdentity?.split('_')[0], follower);
    assert.match(report?.metadata.annotations?.['gateway.mesh.io/acknowledged'] ?? '', /^\{"edge\/web":\{"web-1":/);
    assert.deepEqual(others, []);
  });

  test('a listener that is added is Programmed once it is acknowledged, and the one before all the time', async () => {
    await stop('SIGSTOP');
    await apply(['http', 'more']);
    const waiting = { web: ['Pending', 2], http: ['Programmed', 2], more: ['Pending', 2] } as const;
    await programmed(waiting, /no ready proxy has acknowledged listener more yet/);
    await stop('SIGCONT');
    await programmed({ web: ['Programmed', 2], http: ['Programmed', 2], more: ['Programmed', 2] });
  });

  test('a listener that the proxy rejects is Invalid, with what the proxy says', async () => {
    const taken = createServer();
    owner.after(() => void taken.close());
    await new Promise<void>((resolve) => taken.listen(ports[2], '0.0.0.0', resolve));
    await apply(['http', 'more', 'taken']);
    const expected = {
      web: ['Invalid', 3],
      http: ['Programmed', 3],
      more: ['Programmed', 3],
      taken: ['Invalid', 3],
    } as const;
    await programmed(expected, /listener taken: a proxy rejects the listener: .*cannot bind.*Address already in use/);
    await apply(['http', 'more']);
    await programmed({ web: ['Programmed', 4], http: ['Programmed', 4], more: ['Programmed', 4] });
  });

  test('acknowledged listeners stay Programmed when the replica that reported them ends and its report is deleted', async () => {
    const [report] = await reports();
    const name = report?.spec.holderIdentity?.split('_')[0] ?? '';
    await replicas.get(name)?.kill();
    await eventually(async () => assert.deepEqual(await reports(), []), { timeoutMs: 90_000 });
    await programmed({ web: ['Programmed', 4], http: ['Programmed', 4], more: ['Programmed', 4] });
  });
});
