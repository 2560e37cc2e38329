/** The control planes of the playground: in Pods, by the chart, or without Pods as a process. */
import { buildAside, eventually, type Owner, request, startDiscovery } from '../../test/harness/index.ts';
import {
  type ApiObject,
  discoveryKubeconfig,
  injectionReady,
  type Kubernetes,
  type Mesh,
  startMesh,
} from '../../test/harness/kubernetes/index.ts';

export interface Address {
  readonly address: string;
  readonly port: number;
}

/** Where the Gateway of samples/kubernetes/gateway.yaml listens. */
const GATEWAY_PORT = 18_080;
const DEBUG_PORT = 8080;

/** Starts ctl-discovery outside of Pods; returns the address of its debug pages. */
export async function startControlPlane(owner: Owner, cluster: Kubernetes): Promise<Address> {
  const discovery = await startDiscovery(owner, {
    kubeconfig: await discoveryKubeconfig(owner, cluster),
    env: { CTL_USE_ENDPOINT_SLICE: 'true' },
  });
  return { address: '127.0.0.1', port: discovery.ports.http };
}

/** Starts a cluster with the chart, one replica. Pods run. */
export async function startPods(owner: Owner): Promise<Mesh> {
  const programs = process.env.TEST_PROGRAMS ?? (await buildAside(owner));
  return startMesh(owner, { programs, values: { replicas: 1, podDisruptionBudget: { enabled: false } } });
}

/** Waits until Pods of the samples get proxies. */
export async function awaitInjection(mesh: Mesh): Promise<void> {
  await injectionReady(mesh, 'demo');
}

async function addressOf({ api }: Kubernetes, namespace: string, service: string): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/services/${service}`;
  return (await api.get<ApiObject & { spec: { clusterIP: string } }>(path)).spec.clusterIP;
}

/** The debug pages of ctl-discovery in its Pod. */
export async function debugPages(cluster: Kubernetes): Promise<Address> {
  return { address: await addressOf(cluster, 'mesh-system', 'meshd'), port: DEBUG_PORT };
}

/** The gateway of the samples, once a Pod answers through it. */
export async function gatewayOf(cluster: Kubernetes): Promise<Address> {
  const gateway = { address: await addressOf(cluster, 'demo', 'gateway'), port: GATEWAY_PORT };
  await eventually(
    async () => {
      const { status } = await request({ ...gateway, path: '/hello' });
      if (status !== 200) throw new Error(`the gateway answered ${status}`);
    },
    { timeoutMs: 30_000, what: 'a Pod answers through the gateway' },
  );
  return gateway;
}
