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
 *
 * What fails is tried again, with a delay that grows. The status of a Pod says meanwhile why it is not ready.
 */
import { reportFailures } from '../diagnostics.ts';
import type { Network } from '../netns.ts';
import { createScope, type Owner } from '../owner.ts';
import type { KubernetesApi } from './api.ts';
import { startController } from './controller.ts';
import { PodLogs, servePodLogs } from './pod-logs.ts';
import { NodePods } from './pods/node-pods.ts';
import type { Image } from './pods/types.ts';

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
  /**
   * All Pods with what they wait for and the end of what their unready containers wrote, and the recent errors of the
   * kubelet. Printed when a wait times out.
   */
  describe(): string;
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
  const node = new NodePods(owner, nodeName, options, logs);
  reportFailures(owner, () => node.describe());
  const controller = createScope();
  owner.after(async () => {
    // Pods that take their time to end are what the controller waits for.
    await Promise.all([controller.close(), node.end()]);
    await node.end();
  });
  startController(controller, {
    api,
    path: '/api/v1/pods',
    reconcile: (key, pod) => node.reconcile(key, pod),
    errors: node.errors,
  });
  const containerOf = (pod: string, container: string) => {
    const found = node.pod(pod)?.container(container);
    if (found === undefined) throw new Error(`${pod} has no container ${container} that runs`);
    return found;
  };
  return {
    execute: async (pod, container, command, timeoutMs = EXECUTE_TIMEOUT_MS) =>
      containerOf(pod, container).execute(command, timeoutMs),
    kill: async (pod, container) => containerOf(pod, container).kill(),
    describe: () => node.describe(),
  };
}
