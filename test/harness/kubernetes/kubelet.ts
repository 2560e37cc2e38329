/**
 * A simulated scheduler and kubelet: creates a Node, binds every Pod without one to it, and runs the Pod's containers
 * as local processes in a network namespace with its own address. A container's image is the name of a local program
 * (`images`). Together with the controller manager, a Deployment becomes ready Pods, and a Service gets EndpointSlices.
 *
 * It supports of a Pod: containers with their image, arguments, environment (values, and `fieldRef`s to the
 * metadata, `podIP`, `nodeName`, `serviceAccountName`), volumes (see `volumes.ts`) and HTTP readiness probes. A Pod is
 * ready as long as every declared TCP port of its containers is open and every probe succeeds. A container that ends is
 * restarted. There are no other probes and no init containers; other fields are ignored.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Child } from '../child.ts';
import { tempDir } from '../files.ts';
import { request } from '../http.ts';
import type { Namespace, Network } from '../netns.ts';
import type { Owner } from '../owner.ts';
import { createScope, type Scope } from '../owner.ts';
import { ApiError, type ApiObject, type KubernetesApi } from './api.ts';
import { PodLogs, servePodLogs } from './pod-logs.ts';
import { relocate, type Volume, type VolumeMount, writeVolumes } from './volumes.ts';
import { keyOf, watchCollection } from './watch.ts';

/** A container as an image sees it. */
export interface ContainerStart {
  readonly name: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** The declared TCP ports. */
  readonly ports: readonly number[];
  readonly podIP: string;
  readonly podName: string;
}

/** The command line of a container's process. */
export type Image = (container: ContainerStart) => readonly string[];

export interface KubeletOptions {
  /** As cluster admin. */
  readonly api: KubernetesApi;
  readonly network: Network;
  readonly images: Readonly<Record<string, Image>>;
  /** Default `node-1`. */
  readonly nodeName?: string;
  /** Labels of the Node, such as `topology.kubernetes.io/zone`. */
  readonly nodeLabels?: Readonly<Record<string, string>>;
  /** An address of this machine at which the API server reads logs of Pods. Default: it cannot. */
  readonly logAddress?: string;
}

interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly fieldRef?: { readonly fieldPath: string } };
}

interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly env?: readonly EnvVar[];
  readonly ports?: readonly { readonly containerPort: number; readonly protocol?: string }[];
  readonly volumeMounts?: readonly VolumeMount[];
  readonly readinessProbe?: { readonly httpGet?: { readonly path?: string; readonly port: number | string } };
}

interface Pod extends ApiObject {
  readonly spec: {
    readonly nodeName?: string;
    readonly serviceAccountName?: string;
    readonly containers: readonly Container[];
    readonly volumes?: readonly Volume[];
  };
}

/** How often a Pod is looked at before it is ready, and afterwards. */
const STARTING_POLL_MS = 50;
const READY_POLL_MS = 500;
const PROBE_TIMEOUT_MS = 1_000;
/** The delay before a restart, so that a container that ends at once does not cause a busy loop. */
const RESTART_MS = 500;

/** `TCP_LISTEN` of the kernel, as proc(5) writes states of /proc/net/tcp. */
const LISTEN = '0A';

/** Open ports in the network namespace of a process. */
async function listeningPorts(pid: number): Promise<ReadonlySet<number>> {
  const tables = await Promise.all(
    ['tcp', 'tcp6'].map((name) => readFile(`/proc/${pid}/net/${name}`, 'utf8').catch(() => '')),
  );
  const rows = tables.flatMap((table) =>
    table
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/)),
  );
  const listening = rows.filter(([, , , state]) => state === LISTEN);
  return new Set(listening.map(([, local = '']) => Number.parseInt(local.slice(local.lastIndexOf(':') + 1), 16)));
}

/** Entries as files of a `downwardAPI` volume have them. */
const lines = (entries: unknown) =>
  Object.entries((entries ?? {}) as Record<string, string>)
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .join('\n');

/** An entry of labels or annotations: `metadata.labels['app']`. */
const ENTRY = /^metadata\.(labels|annotations)\['([^']+)'\]$/;

function fieldOf(pod: Pod, podIP: string, path: string): string {
  const [, group = '', key = ''] = ENTRY.exec(path) ?? [];
  if (group !== '') return ((pod.metadata[group] ?? {}) as Record<string, string>)[key] ?? '';
  const fields: Readonly<Record<string, string | undefined>> = {
    'metadata.name': pod.metadata.name,
    'metadata.namespace': pod.metadata.namespace,
    'metadata.uid': pod.metadata.uid,
    'metadata.labels': lines(pod.metadata.labels),
    'metadata.annotations': lines(pod.metadata.annotations),
    'spec.nodeName': pod.spec.nodeName,
    'spec.serviceAccountName': pod.spec.serviceAccountName ?? 'default',
    'status.podIP': podIP,
    'status.hostIP': podIP,
  };
  const value = fields[path];
  if (value === undefined) throw new Error(`the simulated kubelet knows no fieldRef ${path}`);
  return value;
}

const tcpPorts = ({ ports = [] }: Container): number[] =>
  ports.filter(({ protocol = 'TCP' }) => protocol === 'TCP').map(({ containerPort }) => containerPort);

/** The folder is the container's working directory, with its volumes. */
function containerStart(pod: Pod, container: Container, podIP: string, folder: string): ContainerStart {
  const { volumeMounts = [] } = container;
  const env: Record<string, string> = {};
  const expanded = (text: string) =>
    relocate(text, folder, volumeMounts).replace(/\$\((\w+)\)/g, (all, name: string) => env[name] ?? all);
  for (const { name, value = '', valueFrom } of container.env ?? [])
    env[name] = valueFrom?.fieldRef === undefined ? expanded(value) : fieldOf(pod, podIP, valueFrom.fieldRef.fieldPath);
  return {
    name: container.name,
    args: (container.args ?? []).map(expanded),
    env,
    ports: tcpPorts(container),
    podIP,
    podName: pod.metadata.name,
  };
}

async function probeSucceeds({ readinessProbe }: Container, address: string): Promise<boolean> {
  const probe = readinessProbe?.httpGet;
  if (probe === undefined) return true;
  const target = { address, port: Number(probe.port), path: probe.path ?? '/', timeoutMs: PROBE_TIMEOUT_MS };
  const answer = await request(target).catch(() => undefined);
  return answer !== undefined && answer.status >= 200 && answer.status < 400;
}

/** A running Pod. */
class RunningPod {
  readonly #pod: Pod;
  readonly #label: string;
  readonly #options: KubeletOptions;
  readonly #logs: PodLogs;
  readonly #scope: Scope = createScope();
  readonly #children = new Map<string, Child>();
  readonly #ended = new AbortController();
  #restarts = 0;
  #reported = '';
  /** Why a container cannot start yet. */
  #waitsFor: string | undefined;
  #finished: Promise<unknown> = Promise.resolve();

  /** The label is of its network namespace. */
  constructor(pod: Pod, label: string, options: KubeletOptions, logs: PodLogs) {
    this.#logs = logs;
    this.#pod = pod;
    this.#label = label;
    this.#options = options;
  }

  /** Returns at once; a failure becomes the Pod's status. */
  start(): void {
    this.#finished = this.#run().catch((error: unknown) => this.#report(undefined, messageOf(error)));
  }

  /** Ends its processes; settles when they have ended and the namespace is removed. */
  async stop(): Promise<void> {
    this.#ended.abort();
    await this.#finished;
    await this.#scope.close();
    this.#logs.forget(keyOf(this.#pod));
  }

  async #run(): Promise<void> {
    const namespace = await this.#options.network.addNamespace(this.#label, this.#scope);
    const { signal } = this.#ended;
    const { containers } = this.#pod.spec;
    const runs = containers.map((container) => this.#keepRunning(namespace, container, signal));
    const observed = this.#observe(namespace, signal);
    await Promise.all([...runs, observed]);
  }

  async #keepRunning(namespace: Namespace, container: Container, signal: AbortSignal): Promise<void> {
    const image = this.#options.images[container.image];
    if (image === undefined) throw new Error(`the simulated kubelet has no image ${container.image}`);
    const folder = await tempDir(this.#scope);
    await this.#writeVolumes(folder, container, namespace.address, signal);
    const start = containerStart(this.#pod, container, namespace.address, folder);
    const environment = Object.entries(start.env).map(([name, value]) => `${name}=${value}`);
    const argv = ['env', `--chdir=${folder}`, ...environment, ...image(start)];
    while (!signal.aborted) {
      const writer = this.#logs.writer(`${keyOf(this.#pod)}/${container.name}`);
      const child = await namespace.start(`${this.#pod.metadata.name}/${container.name}`, argv, writer);
      this.#children.set(container.name, child);
      const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      await Promise.race([child.exited, aborted]);
      this.#children.delete(container.name);
      if (!signal.aborted) this.#restarts++;
      await delay(RESTART_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Waits for Secrets and ConfigMaps that do not exist yet, as a kubelet does. */
  async #writeVolumes(folder: string, container: Container, podIP: string, signal: AbortSignal): Promise<void> {
    const { api } = this.#options;
    const pod = this.#pod;
    const options = { api, pod, field: (path: string) => fieldOf(pod, podIP, path) };
    while (!signal.aborted) {
      try {
        await writeVolumes(folder, container.volumeMounts ?? [], pod.spec.volumes ?? [], options);
        this.#waitsFor = undefined;
        return;
      } catch (error) {
        this.#waitsFor = messageOf(error);
      }
      await delay(RESTART_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Reports the status whenever it changes. */
  async #observe(namespace: Namespace, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const ready = await this.#readyContainers(namespace.address);
      await this.#report(namespace.address, this.#waitsFor, ready).catch(() => {
        // The API server is unreachable: reported again by the next check.
        this.#reported = '';
      });
      const settled = ready.size === this.#pod.spec.containers.length;
      await delay(settled ? READY_POLL_MS : STARTING_POLL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #readyContainers(podIP: string): Promise<ReadonlySet<string>> {
    const ready = new Set<string>();
    for (const container of this.#pod.spec.containers) {
      const child = this.#children.get(container.name);
      if (child === undefined) continue;
      const listening = await listeningPorts(child.pid);
      if (!tcpPorts(container).every((port) => listening.has(port))) continue;
      if (await probeSucceeds(container, podIP)) ready.add(container.name);
    }
    return ready;
  }

  async #report(podIP: string | undefined, message?: string, ready: ReadonlySet<string> = new Set()): Promise<void> {
    const status = podStatus(this.#pod, { podIP, message, ready, restarts: this.#restarts });
    const text = JSON.stringify(status);
    if (text === this.#reported) return;
    this.#reported = text;
    try {
      await this.#options.api.patch(this.#pod, { status }, 'status');
    } catch (error) {
      // Deleted meanwhile.
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

interface PodState {
  readonly podIP: string | undefined;
  readonly message: string | undefined;
  readonly ready: ReadonlySet<string>;
  readonly restarts: number;
}

function podStatus({ spec }: Pod, { podIP, message, ready, restarts }: PodState): object {
  const all = spec.containers.every(({ name }) => ready.has(name));
  const condition = (type: string, met: boolean) => ({ type, status: met ? 'True' : 'False' });
  // Not the phase `Failed`, which is final: a ReplicaSet would create one Pod after another.
  const waiting = { reason: 'CannotRun', message };
  return {
    phase: podIP === undefined ? 'Pending' : 'Running',
    ...(podIP === undefined ? {} : { podIP, podIPs: [{ ip: podIP }] }),
    conditions: [
      condition('PodScheduled', true),
      condition('Initialized', true),
      condition('ContainersReady', all),
      condition('Ready', all),
    ],
    containerStatuses: spec.containers.map(({ name, image }) => ({
      name,
      image,
      imageID: image,
      ready: ready.has(name),
      started: ready.has(name),
      restartCount: restarts,
      state: podIP === undefined || message !== undefined ? { waiting } : { running: {} },
    })),
  };
}

/** Fields of a Node's status by which the API server finds the logs. */
async function logEndpoint(owner: Owner, logs: PodLogs, address: string): Promise<object> {
  const Port = await servePodLogs(owner, logs, address);
  return { addresses: [{ type: 'InternalIP', address }], daemonEndpoints: { kubeletEndpoint: { Port } } };
}

/** Starts the kubelet. Its Pods end with the owner. */
export async function startKubelet(owner: Owner, options: KubeletOptions): Promise<void> {
  const { api, nodeName = 'node-1', nodeLabels = {}, logAddress } = options;
  const logs = new PodLogs();
  const running = new Map<string, RunningPod>();
  let pods = 0;
  await api.apply([
    {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: nodeName, labels: { 'kubernetes.io/hostname': nodeName, ...nodeLabels } },
      status: {
        conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'pretends to be' }],
        ...(logAddress === undefined ? {} : await logEndpoint(owner, logs, logAddress)),
      },
    },
  ]);
  const bind = ({ metadata }: Pod) =>
    api.request({
      method: 'POST',
      path: `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}/binding`,
      body: {
        apiVersion: 'v1',
        kind: 'Binding',
        metadata: { name: metadata.name },
        target: { kind: 'Node', name: nodeName },
      },
    });
  const end = async (key: string) => {
    const pod = running.get(key);
    running.delete(key);
    await pod?.stop();
  };
  const reconcile = async (object: ApiObject): Promise<void> => {
    const pod = { ...object, apiVersion: 'v1', kind: 'Pod' } as unknown as Pod;
    const key = keyOf(pod);
    if (pod.metadata.deletionTimestamp !== undefined) {
      await end(key);
      if (pod.spec.nodeName === nodeName) await api.delete(pod);
    } else if (pod.spec.nodeName === undefined) {
      await bind(pod);
    } else if (pod.spec.nodeName === nodeName && !running.has(key)) {
      const started = new RunningPod(pod, `pod${++pods}`, options, logs);
      running.set(key, started);
      started.start();
    }
  };
  // Requests that fail while the server is unreachable are repeated after the next list.
  const ignoreFailure = (work: Promise<unknown>) => void work.catch(() => undefined);
  owner.after(async () => void (await Promise.all([...running.keys()].map(end))));
  watchCollection(owner, api, '/api/v1/pods', {
    changed: (object) => ignoreFailure(reconcile(object)),
    gone: (key) => ignoreFailure(end(key)),
  });
}
