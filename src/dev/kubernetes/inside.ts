/**
 * The inner process of the playground: the control plane of Kubernetes, Pods, ctl-discovery and a gateway, in their own
 * network namespace where possible. Servers are reached from outside through Unix sockets, which network namespaces do
 * not separate. It ends when the outer process says so, or has ended.
 */
import { readFileSync } from 'node:fs';
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
  applyDefinitions,
  IMAGES,
  type Kubernetes,
  startKubelet,
  startKubernetes,
} from '../../../test/harness/kubernetes/index.ts';
import { createRelay } from '../demo/relay.ts';
import { type Address, startControlPlane, startGateway } from './mesh.ts';
import type { Ready, Start } from './messages.ts';

const REPOSITORY = join(import.meta.dirname, '../../..');

/** The workloads of a cluster, and the rules of the demo that are about them. */
const SAMPLES = [
  'samples/kubernetes/hello.yaml',
  'samples/demo/hello-versions.yaml',
  'samples/demo/shop-calls-hello.yaml',
  'samples/demo/peer-authentication.yaml',
  'samples/demo/gateway.yaml',
  'samples/demo/gateway-routes.yaml',
];

const progress = (line: string) => void process.stderr.write(`kubernetes: ${line} …\n`);

async function applyFiles({ api }: Kubernetes, files: readonly string[]): Promise<void> {
  for (const file of files) await api.apply(readFileSync(join(REPOSITORY, file), 'utf8'));
}

/** Starts the simulated kubelet; returns why it cannot. */
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

/** Passes connections to a Unix socket on to a server; returns the path of the socket. */
async function listen(owner: Owner, path: string, { address, port }: Address): Promise<string> {
  const relay = createRelay({ host: address, port });
  await new Promise<void>((resolve, reject) => relay.once('error', reject).listen(path, resolve));
  owner.after(() => {
    relay.close();
    relay.destroyAll();
  });
  return path;
}

function addressOf({ url }: Kubernetes): Address {
  const { hostname, port } = new URL(url);
  return { address: hostname, port: Number(port) };
}

async function start(owner: Owner, { folder }: Start): Promise<Ready> {
  progress('starting etcd, kube-apiserver and kube-controller-manager');
  const cluster = await startKubernetes(owner, { controllerManager: true });
  progress('applying deploy/crds and samples');
  await applyDefinitions(cluster.api);
  const withoutPods = await startPods(owner, cluster);
  await applyFiles(cluster, SAMPLES);
  progress('starting ctl-discovery');
  const { discovery, debug } = await startControlPlane(owner, cluster);
  const sockets = {
    api: await listen(owner, join(folder, 'api.sock'), addressOf(cluster)),
    debug: await listen(owner, join(folder, 'debug.sock'), debug),
  };
  const { ca, admin } = cluster;
  if (withoutPods !== undefined)
    return { ca, token: admin.token, sockets: { ...sockets, gateway: undefined }, withoutPods };
  progress('waiting for the Pods of the samples, and starting the gateway');
  await waitAvailable(cluster);
  const gateway = await startGateway(owner, discovery.ports.grpc);
  const reached = { ...sockets, gateway: await listen(owner, join(folder, 'gateway.sock'), gateway) };
  return { ca, token: admin.token, sockets: reached, withoutPods };
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
