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
  kubernetesUnavailable,
  programImage,
  startKubelet,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const KUBECTL = process.env.KUBECTL_PATH ?? '';
const withoutKubectl = existsSync(KUBECTL) ? undefined : 'needs kubectl, which `npm test` installs';
const skip = kubernetesUnavailable() ?? helmUnavailable() ?? (await netnsUnavailable()) ?? withoutKubectl ?? false;

const GATEWAY_PODS = '/api/v1/namespaces/mesh-ingress/pods';

test('the control plane, a gateway, an upgrade and a second revision, as docs/deploying.md has them', {
  skip,
}, async (t) => {
  const cluster = await startKubernetes(t, { controllerManager: true });
  await exposeApiServer(t, cluster.url);
  const [folder, kubeconfig] = await Promise.all([tempDir(t), cluster.kubeconfig(t)]);
  const log = join(folder, 'discovery.log');
  const images = {
    'registry.example/ctl-discovery:0.1.0': programImage('ctl-discovery', log),
    'registry.example/ctl-agent:0.1.0': programImage('ctl-agent', join(folder, 'agent.log')),
  };
  await startKubelet(t, { api: cluster.api, network: await createNetworkHere(t), images });
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

  assert.match(await run(example('docs/deploying.md', 'install the control plane')), /STATUS: deployed/);
  assert.match(await run(example('docs/deploying.md', 'install a gateway')), /gateway: ingress/);
  await eventually(async () => assert.equal((await cluster.api.get<{ items: [] }>(GATEWAY_PODS)).items.length, 1));
  const upgraded = await run(example('docs/deploying.md', 'upgrade'));
  assert.match(upgraded, /virtualservices\.networking\.mesh\.io serverside-applied/);
  assert.match(upgraded, /REVISION: 2/);
  await run(example('docs/deploying.md', 'install a second revision'));
  assert.deepEqual(await deployments(), ['ctl-discovery', 'ctl-discovery-canary']);
  await run(example('docs/deploying.md', 'remove'));
  await eventually(async () => assert.deepEqual(await deployments(), ['ctl-discovery']));
});
