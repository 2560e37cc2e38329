/** ctl-discovery that reads the playground's API server, and the demo's gateway in front of its Pods. */
import { eventually, type Owner, request, startDiscovery, startEnvoy } from '../../../test/harness/index.ts';
import { discoveryKubeconfig, type Kubernetes } from '../../../test/harness/kubernetes/index.ts';

/** Where the Gateway of samples/demo/gateway.yaml listens. */
const GATEWAY = { address: '127.0.0.1', port: 18_080 };

export interface Address {
  readonly address: string;
  readonly port: number;
}

/** Starts ctl-discovery; returns the address of its debug pages. */
export async function startControlPlane(owner: Owner, cluster: Kubernetes) {
  const discovery = await startDiscovery(owner, {
    kubeconfig: await discoveryKubeconfig(owner, cluster),
    env: { CTL_USE_ENDPOINT_SLICE: 'true' },
  });
  return { discovery, debug: { address: '127.0.0.1', port: discovery.ports.http } satisfies Address };
}

/** Starts the gateway of the samples, and waits until a Pod answers through it. */
export async function startGateway(owner: Owner, adsPort: number): Promise<Address> {
  await startEnvoy(owner, {
    id: `router~${GATEWAY.address}~gateway.demo~demo.svc.cluster.local`,
    metadata: { NAMESPACE: 'demo', LABELS: { app: 'gateway' }, INSTANCE_IPS: GATEWAY.address },
    mode: 'delta',
    adsPort,
  });
  await eventually(
    async () => {
      const { status } = await request({ ...GATEWAY, path: '/hello' });
      if (status !== 200) throw new Error(`the gateway answered ${status}`);
    },
    { timeoutMs: 30_000, what: 'a Pod answers through the gateway' },
  );
  return GATEWAY;
}
