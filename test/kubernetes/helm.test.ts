/** The commands of docs/deploying.md, word for word, with Helm, kubectl and a simulated kubelet. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { example, ROOT } from '../e2e/support/documents.ts';
import { createNetworkHere, eventually, netnsUnavailable, tempDir } from '../harness/index.ts';
import {
  type ApiObject,
  exposeApiServer,
  helmPath,
  helmUnavailable,
  IMAGES,
  type Image,
  kubernetesUnavailable,
  programImage,
  startKubelet,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const KUBECTL = process.env.KUBECTL_PATH ?? '';
const withoutKubectl = existsSync(KUBECTL) ? undefined : 'needs kubectl, which `npm test` installs';
const skip = kubernetesUnavailable() ?? helmUnavailable() ?? (await netnsUnavailable()) ?? withoutKubectl ?? false;

interface PodObject extends ApiObject {
  readonly status: {
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** What the gateway leads to. */
const shop: ApiObject[] = [
  {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'shop', namespace: 'default', labels: { app: 'shop' } },
    spec: { containers: [{ name: 'app', image: 'echo', ports: [{ containerPort: 8080 }] }] },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'shop', namespace: 'default' },
    spec: { selector: { app: 'shop' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }] },
  },
];

const GATEWAY_PODS = '/api/v1/namespaces/mesh-ingress/pods';

test('the control plane, a gateway with HTTPS, an upgrade and a second revision, as docs/deploying.md has them', {
  skip,
}, async (t) => {
  const cluster = await startKubernetes(t, { controllerManager: true, serviceAccounts: true });
  const apiPort = await exposeApiServer(t, cluster.url);
  const [folder, kubeconfig] = await Promise.all([tempDir(t), cluster.kubeconfig(t)]);
  const log = join(folder, 'discovery.log');
  const discovery = programImage('ctl-discovery', { log, apiPort });
  const agentLog = join(folder, 'agent.log');
  let controlPlane = '';
  const images: Readonly<Record<string, Image>> = {
    'registry.example/ctl-discovery:0.1.0': (container) => {
      controlPlane = container.podIP;
      return discovery(container);
    },
    ...IMAGES,
    'registry.example/ctl-agent:0.1.0': programImage('ctl-agent', { log: agentLog, apiPort }),
  };
  await startKubelet(t, {
    api: cluster.api,
    network: await createNetworkHere(t),
    images,
    hosts: () => `${controlPlane} meshd.mesh-system.svc`,
  });
  const env = {
    ...process.env,
    PATH: [dirname(helmPath()), dirname(KUBECTL), process.env.PATH].join(':'),
    HOME: folder,
    KUBECONFIG: kubeconfig,
  };
  const run = async (script: string) => {
    try {
      return (await promisify(execFile)('sh', ['-ec', script], { cwd: ROOT, env, timeout: 120_000 })).stdout;
    } catch (error) {
      throw new Error(`${String(error)}\n${await readFile(log, 'utf8').catch(() => 'no log')}`);
    }
  };
  const deployments = async () => {
    const path = '/apis/apps/v1/namespaces/mesh-system/deployments';
    const { items } = await cluster.api.get<{ items: ApiObject[] }>(path);
    return items.map(({ metadata }) => metadata.name).sort();
  };

  // The account `default` of the namespace comes first.
  await eventually(() => cluster.api.apply(shop));
  assert.match(await run(example('docs/deploying.md', 'install the control plane')), /STATUS: deployed/);
  assert.match(await run(example('docs/deploying.md', 'inject proxies into a namespace')), /default labeled/);
  assert.match(await run(example('docs/deploying.md', 'install a gateway')), /gateway: ingress/);
  // It has its roots, its certificate and its configuration.
  await eventually(
    async () => {
      const { items } = await cluster.api.get<{ items: PodObject[] }>(GATEWAY_PODS);
      const ready = items.flatMap(({ status }) => status.conditions ?? []).filter(({ type }) => type === 'Ready');
      const output = await readFile(agentLog, 'utf8').catch(() => 'no log');
      assert.deepEqual(
        ready.map(({ status }) => status),
        ['True'],
        JSON.stringify(items[0]?.status) + output,
      );
    },
    { timeoutMs: 60_000 },
  );
  await run(example('docs/deploying.md', 'serve HTTPS', { '/tmp/shop': join(folder, 'shop') }));
  const { items } = await cluster.api.get<{ items: PodObject[] }>(GATEWAY_PODS);
  const to = `shop.example.com:443:${items[0]?.status.podIP}:443`;
  const call = `curl -sS --max-time 5 --cacert ${folder}/shop.pem --connect-to ${to} https://shop.example.com/`;
  await eventually(async () => assert.match(await run(call), /shop/), { timeoutMs: 60_000 });
  // The control plane has no right to the Secret.
  const account = '--as system:serviceaccount:mesh-system:ctl-discovery';
  assert.match(await run(`kubectl auth can-i list secret/shop-cert -n mesh-ingress ${account} || true`), /^no/);

  const upgraded = await run(example('docs/deploying.md', 'upgrade'));
  assert.match(upgraded, /virtualservices\.networking\.mesh\.io serverside-applied/);
  assert.match(upgraded, /REVISION: 2/);
  await run(example('docs/deploying.md', 'install a second revision'));
  assert.deepEqual(await deployments(), ['ctl-discovery', 'ctl-discovery-canary']);
  await run(example('docs/deploying.md', 'remove'));
  await eventually(async () => assert.deepEqual(await deployments(), ['ctl-discovery']));
});
