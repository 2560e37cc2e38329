/** The commands of docs/deploying.md and of the README, word for word, with Helm, kubectl and a simulated kubelet. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
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
  startServiceProxy,
} from '../harness/kubernetes/index.ts';

const KUBECTL = process.env.KUBECTL_PATH ?? '';
const withoutKubectl = existsSync(KUBECTL) ? undefined : 'needs kubectl, which `npm test` installs';
const skip = kubernetesUnavailable() ?? helmUnavailable() ?? (await netnsUnavailable()) ?? withoutKubectl ?? false;

interface PodObject extends ApiObject {
  readonly spec: unknown;
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

/** A cluster whose images of the mesh are named `<registry>ctl-discovery:0.1.0` and `<registry>ctl-agent:0.1.0`. */
async function startCluster(t: TestContext, registry: string, applications: Readonly<Record<string, Image>>) {
  const cluster = await startKubernetes(t, { controllerManager: true, serviceAccounts: true });
  const apiPort = await exposeApiServer(t, cluster.url);
  const [folder, kubeconfig] = await Promise.all([tempDir(t), cluster.kubeconfig(t)]);
  const [log, agentLog] = [join(folder, 'discovery.log'), join(folder, 'agent.log')];
  const services = startServiceProxy(t, cluster.api);
  await startKubelet(t, {
    api: cluster.api,
    network: await createNetworkHere(t),
    images: {
      ...applications,
      [`${registry}ctl-discovery:0.1.0`]: programImage('ctl-discovery', { log, apiPort }),
      [`${registry}ctl-agent:0.1.0`]: programImage('ctl-agent', { log: agentLog, apiPort }),
    },
    hosts: () => services.hosts(),
  });
  const env = {
    ...process.env,
    PATH: [dirname(helmPath()), dirname(KUBECTL), process.env.PATH].join(':'),
    HOME: folder,
    KUBECONFIG: kubeconfig,
  };
  const run = async (script: string) => {
    try {
      return (await promisify(execFile)('sh', ['-ec', script], { cwd: ROOT, env, timeout: 600_000 })).stdout;
    } catch (error) {
      throw new Error(`${String(error)}\n${await readFile(log, 'utf8').catch(() => 'no log')}`);
    }
  };
  const pods = async (path: string) => (await cluster.api.get<{ items: PodObject[] }>(path)).items;
  /** The address of the one Pod of the gateway, which has its roots and its configuration. */
  const gatewayAddress = () =>
    eventually(
      async () => {
        const [pod, ...others] = await pods(GATEWAY_PODS);
        const ready = pod?.status.conditions?.find(({ type }) => type === 'Ready')?.status;
        const output = await readFile(agentLog, 'utf8').catch(() => 'no log');
        assert.deepEqual([ready, others.length], ['True', 0], JSON.stringify(pod?.status) + output);
        return pod?.status.podIP ?? assert.fail('a Pod without address');
      },
      { timeoutMs: 60_000 },
    );
  return { cluster, folder, run, pods, gatewayAddress };
}

test("the README's quickstart: a request through the gateway reaches a Pod with a sidecar", { skip }, async (t) => {
  const { cluster, run, pods, gatewayAddress } = await startCluster(t, '', { nginx: IMAGES.echo });
  await eventually(() => cluster.api.get('/api/v1/namespaces/default/serviceaccounts/default'));
  assert.match(await run(example('README.md', 'a mesh with a gateway')), /virtualservice\S*hello created/);
  const call = `curl -sS --fail --max-time 15 http://${await gatewayAddress()}/`;
  await eventually(async () => assert.match(await run(call), /hello-/), { timeoutMs: 60_000 });
  const [hello] = await pods('/api/v1/namespaces/default/pods?labelSelector=app%3Dhello');
  assert.match(JSON.stringify(hello?.spec), /mesh-proxy/);
});

test('the control plane, a gateway with HTTPS, an upgrade and a second revision, as docs/deploying.md has them', {
  skip,
}, async (t) => {
  const { cluster, folder, run, gatewayAddress } = await startCluster(t, 'registry.example/', IMAGES);
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
  const gateway = await gatewayAddress();
  await run(example('docs/deploying.md', 'serve HTTPS', { '/tmp/shop': join(folder, 'shop') }));
  const to = `shop.example.com:443:${gateway}:443`;
  const call = `curl -sS --max-time 15 --cacert ${folder}/shop.pem --connect-to ${to} https://shop.example.com/`;
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
