/** The controller of the Gateway API in the test's own process, under the rights of deploy/rbac.yaml. */

import assert from 'node:assert/strict';
import { systemClock } from '../../../src/core/clock.ts';
import { TokenBucket } from '../../../src/core/fairness/token-bucket.ts';
import { type DesiredStatus, GatewayController } from '../../../src/gateway-controller/index.ts';
import { Connection, KubernetesClient, readKubeconfig } from '../../../src/kubernetes/index.ts';
import { eventually, type Owner } from '../../harness/index.ts';
import {
  type ApiObject,
  applyGatewayDefinitions,
  discoveryKubeconfig,
  type Kubernetes,
  startKubernetes,
} from '../../harness/kubernetes/index.ts';

export const CONTROLLER = 'mesh.io/gateway-controller';
export const API = 'gateway.networking.k8s.io/v1';
export const NS = 'edge';

export type Fields = Readonly<Record<string, unknown>>;

export interface Running {
  readonly desired: Map<string, DesiredStatus>;
  readonly log: string[];
  changed(...keys: readonly string[]): void;
  close(): Promise<void>;
}

export async function connect(owner: Owner, cluster: Kubernetes) {
  const access = await readKubeconfig(await discoveryKubeconfig(owner, cluster));
  const connection = new Connection({ access, clock: systemClock, random: Math.random, userAgent: 'test' });
  return { client: new KubernetesClient(connection), close: () => connection.close() };
}

/** As in deploy/rbac.yaml. */
export const SECRETS_ROLE = 'ctl-discovery-mesh-system-gateway-secrets';

export async function startController(
  owner: Owner,
  cluster: Kubernetes,
  first: readonly DesiredStatus[],
  secretsRole = SECRETS_ROLE,
): Promise<Running> {
  const { client, close: disconnect } = await connect(owner, cluster);
  const desired = new Map(first.map((status) => [keyOf(status), status]));
  const lines: string[] = [];
  const write = (message: string, fields?: Fields) => void lines.push(`${message} ${JSON.stringify(fields ?? {})}`);
  const log = { debug: () => {}, info: write, warn: write, error: write };
  const controller = new GatewayController({
    client,
    controllerName: CONTROLLER,
    namespaces: [],
    desired: () => desired,
    isOfOtherRevision: () => false,
    acknowledgements: { of: () => [], follow: () => async () => {} },
    infrastructure: () => ({
      image: 'ctl-agent:1',
      discoveryAddress: 'meshd.mesh-system.svc:15012',
      controlPlaneNamespace: 'mesh-system',
      clusterId: 'Orchestrator',
      rootConfigMap: 'mesh-ca-root-cert',
      secretsRole,
    }),
    statusBudget: new TokenBucket({ rate: 100, burst: 500, now: () => performance.now() }),
    now: Date.now,
    statusLog: log,
    deployLog: log,
  });
  controller.start();
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= controller.close().then(disconnect);
    return closed;
  };
  owner.after(close);
  return { desired, log: lines, changed: (...keys) => controller.changed(keys), close };
}

export const keyOf = ({ kind, namespace, name }: DesiredStatus) => `${kind}/${namespace}/${name}`;

export const condition = (type: string, status: 'True' | 'False', reason: string, message = '') => ({
  type,
  status,
  reason,
  message,
  observedGeneration: 1,
});

export const gateway = (name: string, spec: Fields = {}, metadata: Fields = {}) => ({
  apiVersion: API,
  kind: 'Gateway',
  metadata: { name, namespace: NS, ...metadata },
  spec: { gatewayClassName: 'meshd', listeners: [{ name: 'http', port: 80, protocol: 'HTTP' }], ...spec },
});

export const accepted = (name: string): DesiredStatus => ({
  kind: 'KubernetesGateway',
  namespace: NS,
  name,
  status: {
    conditions: [condition('Accepted', 'True', 'Accepted'), condition('Programmed', 'True', 'Programmed')],
    listeners: [],
  },
});

/** A cluster with the kinds of the Gateway API, the namespace {@link NS} and the classes `meshd` and `other`. */
export async function startGatewayCluster(owner: Owner): Promise<Kubernetes> {
  const cluster = await startKubernetes(owner);
  await applyGatewayDefinitions(cluster.api);
  // For a moment after a definition is created, lists of the kind are answered with 429.
  for (const plural of ['gatewayclasses', 'gateways', 'httproutes', 'grpcroutes', 'backendtlspolicies'])
    await eventually(async () =>
      assert.equal((await cluster.api.request({ path: `/apis/${API}/${plural}` })).status, 200),
    );
  const gatewayClass = (name: string, controllerName: string) => ({
    apiVersion: API,
    kind: 'GatewayClass',
    metadata: { name },
    spec: { controllerName },
  });
  await cluster.api.apply([
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NS } },
    gatewayClass('meshd', CONTROLLER),
    gatewayClass('other', 'example.com/other'),
  ]);
  return cluster;
}

/** A Pod that runs a Gateway and is ready, as a kubelet would write it. */
export async function startReadyPod({ api }: Kubernetes, name: string): Promise<void> {
  const labels = { 'gateway.networking.k8s.io/gateway-name': name };
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: `${name}-pod`, namespace: NS, labels } };
  const spec = { serviceAccountName: `${name}-meshd`, containers: [{ name: 'proxy', image: 'ctl-agent:1' }] };
  await api.apply([{ ...pod, spec }]);
  await api.patch(pod, { status: { conditions: [{ type: 'Ready', status: 'True' }] } }, 'status');
}

/** An object of the namespace {@link NS}. */
export async function readObject(
  { api }: Kubernetes,
  apiVersion: string,
  kind: string,
  name: string,
): Promise<ApiObject> {
  return api.get(await api.path({ apiVersion, kind, metadata: { namespace: NS, name } }));
}
