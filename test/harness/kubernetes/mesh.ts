/**
 * A cluster with a mesh as its users have it: the chart of `ctl-discovery` with its webhooks, replicas of it in Pods,
 * and Pods that get their proxies by injection.
 */
import { join } from 'node:path';
import { eventually } from '../eventually.ts';
import { tempDir } from '../files.ts';
import { createNetworkHere } from '../netns.ts';
import type { Owner } from '../owner.ts';
import type { ApiObject } from './api.ts';
import { type Kubernetes, startKubernetes } from './control-plane.ts';
import { applyGatewayDefinitions } from './deploy.ts';
import { renderChart } from './helm.ts';
import { IMAGES } from './images.ts';
import { exposeApiServer, programImage } from './in-pod.ts';
import { type Image, type Kubelet, startKubelet } from './kubelet.ts';
import { startLoadBalancer } from './load-balancer.ts';
import { startServiceProxy } from './service-proxy.ts';

/** The namespace of the control plane. */
export const MESH_NAMESPACE = 'mesh-system';

export interface MeshOptions {
  /** More than `echo` and the programs of this repository. */
  readonly images?: Readonly<Record<string, Image>>;
  /** More values of the chart. */
  readonly values?: Readonly<Record<string, unknown>>;
  /**
   * Serves the Gateway API, with an address for each Service of type LoadBalancer; `conformanceUnavailable` must be
   * undefined. Default false.
   */
  readonly gatewayApi?: boolean;
  /** Folder of the built programs. Default: the one that `npm test` builds. */
  readonly programs?: string;
}

export interface Mesh {
  readonly cluster: Kubernetes;
  readonly kubelet: Kubelet;
  /** Files with the output of all replicas, and of all agents. */
  readonly logs: readonly string[];
}

/** For short lives: they end quickly, and need little of the machine. */
const VALUES = {
  autoscaling: { enabled: false },
  preStopSeconds: 1,
  drainSeconds: 1,
  meshConfig: { defaultConfig: { concurrency: 1, terminationDrainDuration: '1s' } },
};

/** As the chart names them where nothing else is asked for. */
const TAG = '0.1.0';

/** Starts the cluster with the definitions of the mesh, and applies the chart. `helmUnavailable` must be undefined. */
export async function startMesh(owner: Owner, options: MeshOptions = {}): Promise<Mesh> {
  const cluster = await startKubernetes(owner, { controllerManager: true, serviceAccounts: true, definitions: true });
  const { api } = cluster;
  const [apiPort, folder] = await Promise.all([exposeApiServer(owner, cluster.url), tempDir(owner)]);
  const services = startServiceProxy(owner, api);
  const [log, agentLog] = [join(folder, 'discovery.log'), join(folder, 'agents.log')];
  const programs = options.programs === undefined ? {} : { programs: options.programs };
  const kubelet = await startKubelet(owner, {
    api,
    network: await createNetworkHere(owner),
    images: {
      ...IMAGES,
      [`ctl-discovery:${TAG}`]: programImage('ctl-discovery', { log, apiPort, ...programs }),
      [`ctl-agent:${TAG}`]: programImage('ctl-agent', { log: agentLog, apiPort, ...programs }),
      ...options.images,
    },
    hosts: () => services.hosts(),
  });
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  await api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: MESH_NAMESPACE, labels } }]);
  const { gatewayApi = false } = options;
  if (gatewayApi) {
    await applyGatewayDefinitions(api);
    startLoadBalancer(owner, { api });
  }
  const values = { ...VALUES, ...(gatewayApi && { gatewayApi: { enabled: true } }), ...options.values };
  const release = { chart: 'ctl-discovery', namespace: MESH_NAMESPACE, values } as const;
  await api.apply(await renderChart(owner, release));
  return { cluster, kubelet, logs: [log, agentLog] };
}

/** Whether a Pod has the proxy. */
export function isInjected({ spec }: ApiObject): boolean {
  const { initContainers = [], containers = [] } = spec as Record<string, readonly { name: string }[] | undefined>;
  return [...initContainers, ...containers].some(({ name }) => name === 'mesh-proxy');
}

/** What a new Pod of a namespace would be; rejects with the message of the API server. Nothing is stored. */
export async function tryPod({ cluster }: Pick<Mesh, 'cluster'>, namespace: string): Promise<ApiObject> {
  const body = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { generateName: 'try-', namespace },
    spec: { containers: [{ name: 'app', image: 'echo' }] },
  };
  const path = `/api/v1/namespaces/${namespace}/pods?dryRun=All`;
  const answer = await cluster.api.request({ method: 'POST', path, body });
  if (answer.status !== 201) throw new Error((answer.json() as { message: string }).message);
  return answer.json() as ApiObject;
}

/** Waits until Pods of a namespace are injected. */
export async function injectionReady(mesh: Pick<Mesh, 'cluster'>, namespace: string): Promise<void> {
  const attempt = async () => {
    if (!isInjected(await tryPod(mesh, namespace))) throw new Error('a Pod is not injected');
  };
  await eventually(attempt, { timeoutMs: 90_000, what: `Pods of ${namespace} are injected` });
}
