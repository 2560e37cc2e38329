/**
 * The inner process of the playground: the control plane of Kubernetes, Pods, ctl-discovery and a gateway, in their own
 * network namespace where possible. Servers are reached from outside through Unix sockets, which network namespaces do
 * not separate. It ends when the outer process says so, or has ended.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createScope, eventually, inOwnNetwork, netnsUnavailable, type Owner } from '../../test/harness/index.ts';
import { type ApiObject, type Kubernetes, startKubernetes } from '../../test/harness/kubernetes/index.ts';
import { createRelay } from '../demo/relay.ts';
import { type Address, awaitInjection, debugPages, gatewayOf, startControlPlane, startPods } from './mesh.ts';
import type { Ready, Start } from './messages.ts';

const REPOSITORY = join(import.meta.dirname, '../..');

const NAMESPACE = 'samples/kubernetes/namespace.yaml';
/** The workloads of a cluster, and the rules of the demo that are about them. */
const SAMPLES = [
  'samples/kubernetes/hello.yaml',
  'samples/kubernetes/gateway.yaml',
  'samples/demo/hello-versions.yaml',
  'samples/demo/shop-calls-hello.yaml',
  'samples/demo/peer-authentication.yaml',
  'samples/demo/gateway-routes.yaml',
];

const progress = (line: string) => void process.stderr.write(`kubernetes: ${line} …\n`);

async function applyFiles({ api }: Kubernetes, files: readonly string[]): Promise<void> {
  for (const file of files) await api.apply(readFileSync(join(REPOSITORY, file), 'utf8'));
}

/** Why Pods cannot run here; undefined when they can. */
async function podsUnavailable(): Promise<string | undefined> {
  return inOwnNetwork() ? await netnsUnavailable() : 'Pods need network namespaces: run it as root';
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

interface Started {
  readonly cluster: Kubernetes;
  readonly debug: Address;
  /** Undefined without Pods. */
  readonly gateway: Address | undefined;
}

async function startWithPods(owner: Owner): Promise<Started> {
  progress('starting etcd, kube-apiserver, kube-controller-manager and the chart of ctl-discovery');
  const mesh = await startPods(owner);
  const { cluster } = mesh;
  await applyFiles(cluster, [NAMESPACE]);
  await awaitInjection(mesh);
  progress('applying samples, and waiting for their Pods');
  await applyFiles(cluster, SAMPLES);
  await waitAvailable(cluster);
  return { cluster, debug: await debugPages(cluster), gateway: await gatewayOf(cluster) };
}

async function startWithoutPods(owner: Owner): Promise<Started> {
  progress('starting etcd, kube-apiserver and kube-controller-manager with deploy/crds');
  const cluster = await startKubernetes(owner, { controllerManager: true, definitions: true });
  progress('applying samples');
  await applyFiles(cluster, [NAMESPACE, ...SAMPLES]);
  progress('starting ctl-discovery');
  return { cluster, debug: await startControlPlane(owner, cluster), gateway: undefined };
}

async function start(owner: Owner, { folder }: Start): Promise<Ready> {
  const withoutPods = await podsUnavailable();
  const { cluster, debug, gateway } = await (withoutPods === undefined ? startWithPods : startWithoutPods)(owner);
  const socket = (name: string, address: Address) => listen(owner, join(folder, `${name}.sock`), address);
  const sockets = {
    api: await socket('api', addressOf(cluster)),
    debug: await socket('debug', debug),
    gateway: gateway && (await socket('gateway', gateway)),
  };
  return { ca: cluster.ca, token: cluster.admin.token, sockets, withoutPods };
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
