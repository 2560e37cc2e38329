/** A mesh in a cluster, its Pods as kubectl and curl see them, and calls between them. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { eventually, type Owner, tempDir } from '../../harness/index.ts';
import {
  type ApiObject,
  type Image,
  injectionReady,
  type Mesh,
  type MeshOptions,
  startMesh,
} from '../../harness/kubernetes/index.ts';

const KUBECTL = process.env.KUBECTL_PATH ?? '';

/** Why there is no kubectl, or undefined when there is: for the `skip` of a test. */
export const kubectlUnavailable = (): string | undefined =>
  existsSync(KUBECTL) ? undefined : 'needs kubectl, which `npm test` installs';

export interface PodContainerStatus {
  readonly name: string;
  readonly restartCount: number;
}

export interface PodObject extends ApiObject {
  readonly metadata: ApiObject['metadata'] & { readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: {
    readonly initContainers?: readonly PodSpecContainer[];
    readonly containers: readonly PodSpecContainer[];
  };
  readonly status: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly PodContainerStatus[];
  };
}

interface PodSpecContainer {
  readonly name: string;
  readonly restartPolicy?: string;
  readonly readinessProbe?: { readonly httpGet?: { readonly path: string; readonly port: number | string } };
}

export interface InjectedMesh extends Mesh {
  /** Runs kubectl as admin; returns its stdout, and rejects with its stderr. */
  kubectl(...args: readonly string[]): Promise<string>;
  /** `kubectl apply` of objects. */
  apply(...objects: readonly object[]): Promise<string>;
  pods(namespace: string, selector?: string): Promise<readonly PodObject[]>;
  /** Waits until all Pods that the selector matches are ready, and there are so many of them. */
  ready(namespace: string, selector: string, count?: number): Promise<readonly PodObject[]>;
  /** The status that curl gets in the container `app` of a Pod, 0 without an answer; and the body. */
  curl(
    pod: string,
    url: string,
    ...more: readonly string[]
  ): Promise<{ readonly status: number; readonly body: string }>;
  /** The output of all replicas, and that of all agents. */
  output(): string;
}

export const isReady = ({ metadata, status }: PodObject): boolean =>
  metadata.deletionTimestamp === undefined &&
  (status.conditions ?? []).some((condition) => condition.type === 'Ready' && condition.status === 'True');

/** Any command with the programs of this machine: `curl`, `sleep`. */
const tools: Image = () => ['sleep', 'infinity'];

/** Starts a mesh; returns when Pods of these new namespaces are injected. */
export async function startInjectedMesh(
  owner: Owner,
  namespaces: readonly string[],
  images: Readonly<Record<string, Image>> = {},
  options: Omit<MeshOptions, 'images'> = {},
): Promise<InjectedMesh> {
  const started = await startMesh(owner, { ...options, images: { tools, ...images } });
  const { api } = started.cluster;
  await api.apply(
    namespaces.map((name) => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name, labels: { 'mesh-injection': 'enabled' } },
    })),
  );
  const [folder, kubeconfig] = await Promise.all([tempDir(owner), started.cluster.kubeconfig(owner)]);
  const mesh = { ...started, ...accessTo(started, kubeconfig, folder) };
  for (const namespace of namespaces)
    await injectionReady(mesh, namespace).catch((cause: unknown) => {
      throw new Error(mesh.output(), { cause });
    });
  return mesh;
}

function accessTo(
  { cluster, kubelet, logs }: Mesh,
  kubeconfig: string,
  folder: string,
): Omit<InjectedMesh, keyof Mesh> {
  const { api } = cluster;
  let files = 0;
  const kubectl = async (...args: readonly string[]) => {
    const env = { ...process.env, HOME: folder, KUBECONFIG: kubeconfig };
    return (await promisify(execFile)(KUBECTL, args, { env })).stdout;
  };
  const pods = async (namespace: string, selector = '') => {
    const path = `/api/v1/namespaces/${namespace}/pods?labelSelector=${encodeURIComponent(selector)}`;
    return (await api.get<{ items: PodObject[] }>(path)).items;
  };
  const output = () => logs.map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : '')).join('\n');
  return {
    kubectl,
    async apply(...objects) {
      const file = join(folder, `${++files}.json`);
      await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
      return kubectl('apply', '-f', file);
    },
    pods,
    async ready(namespace, selector, count = 1) {
      const attempt = async () => {
        const items = (await pods(namespace, selector)).filter(
          ({ metadata }) => metadata.deletionTimestamp === undefined,
        );
        const waiting = items.filter((pod) => !isReady(pod)).map(({ metadata, status }) => [metadata.name, status]);
        if (waiting.length > 0 || items.length !== count)
          throw new Error(`${items.length} of ${count} Pods of ${selector}, not ready: ${JSON.stringify(waiting)}`);
        return items;
      };
      return eventually(attempt, { timeoutMs: 60_000 }).catch((error: unknown) => {
        throw new Error(`${String(error)}\n${output()}`);
      });
    },
    async curl(pod, url, ...more) {
      const command = ['curl', '-sS', '--max-time', '30', '-w', '\n%{http_code}', ...more, url];
      // Without an answer curl ends with an error.
      const script = ['sh', '-c', '"$@" || echo', 'sh', ...command];
      const lines = (await kubelet.execute(pod, 'app', script)).trimEnd().split('\n');
      return { status: Number(lines.pop() ?? 0), body: lines.join('\n') };
    },
    output,
  };
}

/** Between two calls, each of which starts programs: short enough to notice a gap, long enough to leave cores free. */
const PAUSE_MS = 20;

/** Calls, one after the other, until they are stopped. */
export interface SteadyCalls {
  /** Waits for more of them. */
  more(count: number): Promise<void>;
  /** How many of each status there were. */
  stop(): Promise<Readonly<Record<number, number>>>;
}

export function steadyCalls(mesh: InjectedMesh, pod: string, url: string): SteadyCalls {
  const statuses: Record<number, number> = {};
  let [stopped, done] = [false, 0];
  const run = async () => {
    for (; !stopped; done++) {
      const { status } = await mesh.curl(pod, url);
      statuses[status] = (statuses[status] ?? 0) + 1;
      await delay(PAUSE_MS);
    }
  };
  const finished = run();
  return {
    async more(count) {
      const goal = done + count;
      await eventually(() => {
        if (done < goal) throw new Error(`${goal - done} calls to go`);
      });
    },
    async stop() {
      stopped = true;
      await finished;
      return statuses;
    },
  };
}
