/**
 * A simulated scheduler and kubelet: creates a Node, binds every Pod without one to it, and runs the Pod's containers
 * as local processes in a network namespace with its own address. A container's image is the name of a local program
 * (`images`). Together with the controller manager, a Deployment becomes ready Pods, and a Service gets EndpointSlices.
 *
 * It supports of a Pod: init containers and native sidecars, restart policies, commands, arguments and variables,
 * volumes at their paths (see `pods/volumes.ts`), users, groups, capabilities and read-only file systems, probes and
 * hooks, and the order and the grace period of its end. Probes are more frequent than they ask, so that tests need not
 * wait; a container without a readiness probe is ready as long as its declared TCP ports are open. Other fields are
 * ignored. There is no DNS (`hosts` replaces it), and addresses of Services lead nowhere unless a proxy redirects them.
 */
import type { Network } from '../netns.ts';
import type { Owner } from '../owner.ts';
import type { ApiObject, KubernetesApi } from './api.ts';
import { PodLogs, servePodLogs } from './pod-logs.ts';
import { RunningPod } from './pods/pod.ts';
import type { Image, Pod } from './pods/types.ts';
import { keyOf, watchCollection } from './watch.ts';

export type { ContainerStart, Image, ImageProcess } from './pods/types.ts';

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
  /** Lines of hosts(5) for all Pods, read when one starts. */
  readonly hosts?: () => string;
}

export interface Kubelet {
  /**
   * Runs a command in a container, as `kubectl exec`; returns its stdout, and rejects unless it ends with 0 in time.
   * @param pod `namespace/name`
   */
  execute(pod: string, container: string, command: readonly string[], timeoutMs?: number): Promise<string>;
  /** Ends the processes of a container with SIGKILL. */
  kill(pod: string, container: string): Promise<void>;
}

/** Fields of a Node's status by which the API server finds the logs. */
async function logEndpoint(owner: Owner, logs: PodLogs, address: string): Promise<object> {
  const Port = await servePodLogs(owner, logs, address);
  return { addresses: [{ type: 'InternalIP', address }], daemonEndpoints: { kubeletEndpoint: { Port } } };
}

const EXECUTE_TIMEOUT_MS = 60_000;

/** Starts the kubelet. Its Pods end with the owner. */
export async function startKubelet(owner: Owner, options: KubeletOptions): Promise<Kubelet> {
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
  const ending = new Map<string, Promise<void>>();
  /** Without a time: that of the Pod. */
  const end = async (key: string, graceSeconds?: number) => {
    const pod = running.get(key);
    running.delete(key);
    if (pod !== undefined) ending.set(key, pod.stop(graceSeconds));
    await ending.get(key);
    ending.delete(key);
  };
  const reconcile = async (object: ApiObject): Promise<void> => {
    const pod = { ...object, apiVersion: 'v1', kind: 'Pod' } as unknown as Pod;
    const key = keyOf(pod);
    if (pod.metadata.deletionTimestamp !== undefined) {
      await end(key, pod.metadata.deletionGracePeriodSeconds as number | undefined);
      if (pod.spec.nodeName === nodeName) await api.delete(pod);
    } else if (pod.spec.nodeName === undefined) {
      await bind(pod);
    } else if (pod.spec.nodeName === nodeName && !running.has(key)) {
      const started = new RunningPod(owner, pod, `pod${++pods}`, options, logs);
      running.set(key, started);
      started.start();
    }
  };
  // Requests that fail while the server is unreachable are repeated after the next list.
  const ignoreFailure = (work: Promise<unknown>) => void work.catch(() => undefined);
  owner.after(async () => void (await Promise.all([...running.keys(), ...ending.keys()].map((key) => end(key, 0)))));
  watchCollection(owner, api, '/api/v1/pods', {
    changed: (object) => ignoreFailure(reconcile(object)),
    gone: (key) => ignoreFailure(end(key, 0)),
  });
  const containerOf = (pod: string, container: string) => {
    const found = running.get(pod)?.container(container);
    if (found === undefined) throw new Error(`${pod} has no container ${container} that runs`);
    return found;
  };
  return {
    execute: async (pod, container, command, timeoutMs = EXECUTE_TIMEOUT_MS) =>
      containerOf(pod, container).execute(command, timeoutMs),
    kill: async (pod, container) => containerOf(pod, container).kill(),
  };
}
