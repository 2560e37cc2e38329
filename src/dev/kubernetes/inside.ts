/**
 * The inner process of the playground: etcd, API server, controller manager and Pods, in a network namespace of their
 * own where there may be one. The API server is reachable from outside through a Unix socket, which namespaces of the
 * network do not separate. Ends when the outer process tells it to, or is gone.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createNetworkHere,
  createScope,
  eventually,
  inOwnNetwork,
  netnsUnavailable,
  type Owner,
} from '../../../test/harness/index.ts';
import {
  type ApiObject,
  IMAGES,
  type Kubernetes,
  startKubelet,
  startKubernetes,
} from '../../../test/harness/kubernetes/index.ts';
import { createRelay } from '../demo/relay.ts';
import type { Ready, Start } from './messages.ts';

const REPOSITORY = join(import.meta.dirname, '../../..');

const DEFINITIONS = globSync('deploy/crds/*.yaml', { cwd: REPOSITORY }).sort();

/** The workloads of a cluster, and the rules of the demo that are about them. */
const SAMPLES = [
  'samples/kubernetes/hello.yaml',
  'samples/demo/hello-versions.yaml',
  'samples/demo/shop-calls-hello.yaml',
  'samples/demo/peer-authentication.yaml',
];

const progress = (line: string) => void process.stderr.write(`kubernetes: ${line} …\n`);

async function applyFiles({ api }: Kubernetes, files: readonly string[]): Promise<void> {
  for (const file of files) await api.apply(readFileSync(join(REPOSITORY, file), 'utf8'));
}

/** Starts the pretend kubelet; returns why it cannot. */
async function startPods(owner: Owner, { api }: Kubernetes): Promise<string | undefined> {
  const unavailable = inOwnNetwork() ? await netnsUnavailable() : 'Pods need network namespaces: run it as root';
  if (unavailable !== undefined) return unavailable;
  await startKubelet(owner, { api, network: await createNetworkHere(owner), images: IMAGES });
  return undefined;
}

/** A Deployment's Pods take a moment to start. */
async function waitAvailable({ api }: Kubernetes): Promise<void> {
  await eventually(
    async () => {
      const { items } = await api.get<{ items: ApiObject[] }>('/apis/apps/v1/deployments');
      for (const { metadata, spec, status } of items) {
        const { replicas } = spec as { replicas: number };
        const { availableReplicas = 0 } = status as { availableReplicas?: number };
        if (availableReplicas < replicas)
          throw new Error(`${metadata.name}: ${availableReplicas} of ${replicas} Pods are available`);
      }
    },
    { timeoutMs: 60_000, what: 'Pods of the samples are available' },
  );
}

async function listen(owner: Owner, { url }: Kubernetes, path: string): Promise<void> {
  const { hostname, port } = new URL(url);
  const relay = createRelay({ host: hostname, port: Number(port) });
  await new Promise<void>((resolve, reject) => relay.once('error', reject).listen(path, resolve));
  owner.after(() => {
    relay.close();
    relay.destroyAll();
  });
}

async function start(owner: Owner, { socket }: Start): Promise<Ready> {
  progress('starting etcd, kube-apiserver and kube-controller-manager');
  const cluster = await startKubernetes(owner, { controllerManager: true });
  progress('applying deploy/crds and samples');
  await applyFiles(cluster, DEFINITIONS);
  const withoutPods = await startPods(owner, cluster);
  await applyFiles(cluster, SAMPLES);
  if (withoutPods === undefined) {
    progress('waiting for the Pods of the samples');
    await waitAvailable(cluster);
  }
  await listen(owner, cluster, socket);
  return { ca: cluster.ca, token: cluster.admin.token, withoutPods };
}

const scope = createScope();
let ending: Promise<void> | undefined;
/** Once: whatever asks for it a second time waits for the first. */
function end(code: number): void {
  ending ??= scope
    .close()
    .catch((error: unknown) => {
      process.stderr.write(`kubernetes: ${error instanceof Error ? error.message : String(error)}\n`);
      process.exitCode = 1;
    })
    .then(() => process.exit(process.exitCode ?? code));
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => end(0));
process.once('disconnect', () => end(0));
process.once('message', async (message) => {
  try {
    process.send?.(await start(scope, message as Start));
  } catch (error) {
    if (ending !== undefined) return;
    process.stderr.write(`kubernetes: ${error instanceof Error ? error.message : String(error)}\n`);
    end(1);
  }
});
