/**
 * The official conformance suite of the Gateway API against this program: a Kubernetes API server with the API's kinds,
 * a simulated kubelet and load balancer, and `ctl-discovery` under the rights of `deploy/rbac.yaml`, which deploys an
 * Envoy for each Gateway.
 *
 *     const bench = await startConformance(owner);
 *     const { results } = await bench.run({ only: 'HTTPRouteMatching' });   // name of a test → pass, fail, skip
 */
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Discovery, startDiscovery } from '../discovery.ts';
import { eventually } from '../eventually.ts';
import { tempDir } from '../files.ts';
import { createNetworkHere } from '../netns.ts';
import type { Owner } from '../owner.ts';
import type { KubernetesApi } from './api.ts';
import { conformancePath } from './conformance-programs.ts';
import { type Kubernetes, startKubernetes } from './control-plane.ts';
import { applyGatewayDefinitions, discoveryKubeconfig } from './deploy.ts';
import { exposeApiServer, programImage } from './in-pod.ts';
import { type Image, startKubelet } from './kubelet.ts';
import { startLoadBalancer } from './load-balancer.ts';

export const CONFORMANCE_PROFILES = ['GATEWAY-HTTP', 'GATEWAY-GRPC', 'GATEWAY-TLS'];

const CLASS = 'meshd';
const SECURE_PORT = 15_012;
const AGENT_IMAGE = 'ctl-agent:conformance';

/** The images in the manifests of the suite. */
const ECHO_IMAGES = ['v1.5.1', 'v1.6.0-dev.2', 'v1.6.0-dev.3'].map(
  (tag) => `registry.k8s.io/gateway-api/echo-basic:${tag}`,
);
/** A DNS server for tests of UDPRoute. It only has to be there. */
const DNS_IMAGE = 'registry.k8s.io/coredns/coredns:v1.12.2';

/** An address that the load balancer gives to a Service that asks for it. */
const USABLE_ADDRESS = '198.18.0.250';

export type ConformanceResult = 'pass' | 'fail' | 'skip';

export interface ConformanceRun {
  /** By name of the test. */
  readonly results: ReadonlyMap<string, ConformanceResult>;
  readonly output: string;
  /** False as well when the suite's own set-up failed. */
  readonly passed: boolean;
}

export interface ConformanceRunOptions {
  /** A regular expression for the names of tests. Default: all. */
  readonly only?: string;
  /** Runs tests of features that are not claimed, too, except those of UDPRoute and of meshes. Default false. */
  readonly unclaimed?: boolean;
  /** Writes the official report. */
  readonly report?: string;
  readonly signal?: AbortSignal;
  /** Receives each result. */
  onResult?(name: string, result: ConformanceResult, seconds: number): void;
}

export interface Conformance {
  readonly cluster: Kubernetes;
  readonly discovery: Discovery;
  /** Output of the agents and Envoys of all gateways. */
  readonly gatewayLog: string;
  /** The Pods, as `Kubelet.describe`. */
  describePods(): string;
  run(options?: ConformanceRunOptions): Promise<ConformanceRun>;
}

const gatewayClass = {
  apiVersion: 'gateway.networking.k8s.io/v1',
  kind: 'GatewayClass',
  metadata: { name: CLASS },
  spec: { controllerName: 'mesh.io/gateway-controller' },
};

/**
 * An operator allows Secrets of other namespaces and ConfigMaps of authorities by name; the suite has many, and
 * expects Secrets that do not exist in the status.
 */
const secretRights = [
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'conformance-secrets' },
    rules: [{ apiGroups: [''], resources: ['secrets', 'configmaps'], verbs: ['list', 'watch'] }],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'conformance-secrets' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'conformance-secrets' },
    subjects: [{ kind: 'ServiceAccount', name: 'ctl-discovery', namespace: 'mesh-system' }],
  },
];

function images(gatewayLog: string, apiPort: number): Record<string, Image> {
  const echo: Image = () => [conformancePath('echo-basic')];
  const env = { TERMINATION_DRAIN_DURATION_SECONDS: '1' };
  const agent = programImage('ctl-agent', { log: gatewayLog, apiPort, env });
  return {
    ...Object.fromEntries(ECHO_IMAGES.map((name) => [name, echo])),
    [DNS_IMAGE]: () => ['sleep', 'infinity'],
    [AGENT_IMAGE]: agent,
  };
}

async function startControlPlane(owner: Owner, cluster: Kubernetes, address: string): Promise<Discovery> {
  const folder = await tempDir(owner);
  const meshConfig = join(folder, 'mesh.yaml');
  const discoveryAddress = `${address}:${SECURE_PORT}`;
  await writeFile(meshConfig, JSON.stringify({ defaultConfig: { discoveryAddress } }));
  return startDiscovery(owner, {
    kubeconfig: await discoveryKubeconfig(owner, cluster),
    flags: ['--meshConfig', meshConfig, '--secureGRPCAddr', discoveryAddress],
    env: {
      CTL_ENABLED_SERVICE_APIS: 'true',
      CTL_USE_ENDPOINT_SLICE: 'true',
      GATEWAY_IMAGE: AGENT_IMAGE,
      // As deploy/rbac.yaml names it.
      GATEWAY_SECRETS_ROLE: 'ctl-discovery-mesh-system-gateway-secrets',
      MESHD_CUSTOM_HOST: address,
      SELF_SIGNED_CA_DIR: folder,
    },
  });
}

/** The suite reads once, when it starts, which features the class supports. */
async function featuresWritten(api: KubernetesApi): Promise<void> {
  const path = await api.path({ ...gatewayClass });
  const features = async () => {
    const { status } = await api.get<{ status?: { supportedFeatures?: unknown[] } }>(path);
    if ((status?.supportedFeatures?.length ?? 0) === 0) throw new Error('no features are written');
  };
  await eventually(features, { what: `the features of GatewayClass ${CLASS} are written` });
}

/** Starts everything that the suite needs. It ends with the owner. */
export async function startConformance(owner: Owner): Promise<Conformance> {
  const network = await createNetworkHere(owner);
  const cluster = await startKubernetes(owner, {
    controllerManager: true,
    garbageCollector: true,
    serviceAccounts: true,
    definitions: true,
  });
  const { api } = cluster;
  await applyGatewayDefinitions(api);
  await api.apply([gatewayClass, ...secretRights]);
  const [folder, apiPort] = await Promise.all([tempDir(owner), exposeApiServer(owner, cluster.url)]);
  const gatewayLog = join(folder, 'gateways.log');
  startLoadBalancer(owner, { api, pool: [USABLE_ADDRESS] });
  // Tests of mirrors read the logs of backends.
  const kubelet = await startKubelet(owner, {
    api,
    network,
    images: images(gatewayLog, apiPort),
    logAddress: network.address,
  });
  const discovery = await startControlPlane(owner, cluster, network.address);
  await featuresWritten(api);
  const kubeconfig = await cluster.kubeconfig(owner);
  const ended = new AbortController();
  owner.after(() => ended.abort());
  const run: Conformance['run'] = ({ signal, ...options } = {}) =>
    runSuite(kubeconfig, options, signal === undefined ? ended.signal : AbortSignal.any([signal, ended.signal]));
  return { cluster, discovery, gatewayLog, describePods: () => kubelet.describe(), run };
}

const RESULTS = { PASS: 'pass', FAIL: 'fail', SKIP: 'skip' } as const;
/** As the test runner of Go writes the result of a test of the suite; names of its parts are longer. */
const RESULT = /^--- (PASS|FAIL|SKIP): TestConformance\/(\w+) \(([\d.]+)s\)/;
/** Begins the lines of the runner itself in the form for programs (go doc cmd/test2json). */
const MARK = '\x16';

/** Their Pods need more than the simulated kubelet has. */
const EXEMPT_FEATURES = [
  'UDPRoute',
  'Mesh',
  'MeshClusterIPMatching',
  'MeshConsumerRoute',
  'MeshHTTPRouteRewritePath',
  'MeshHTTPRouteSchemeRedirect',
  'MeshHTTPRouteRedirectPort',
  'MeshHTTPRouteRedirectPath',
  'MeshHTTPRouteBackendRequestHeaderModification',
  'MeshHTTPRouteQueryParamMatching',
  'MeshHTTPRouteNamedRouteRule',
];

function suiteFlags({ only, unclaimed = false, report }: ConformanceRunOptions): string[] {
  const details = ['organization=meshd', 'project=meshd', 'url=https://meshd.invalid', 'version=0.1.0', 'contact=none'];
  return [
    `-usable-address=${USABLE_ADDRESS}`,
    '-unusable-address=192.0.2.1',
    // Results are written when they are known, not at the end.
    '-test.v=test2json',
    '-test.timeout=60m',
    `-test.run=^TestConformance$${only === undefined ? '' : `/${only}`}`,
    `-gateway-class=${CLASS}`,
    `-conformance-profiles=${CONFORMANCE_PROFILES.join(',')}`,
    ...(unclaimed ? ['-all-features', `-exempt-features=${EXEMPT_FEATURES.join(',')}`] : []),
    ...(report === undefined ? [] : [`-report-output=${report}`, ...details.map((detail) => `-${detail}`)]),
  ];
}

async function runSuite(
  kubeconfig: string,
  options: ConformanceRunOptions,
  signal: AbortSignal,
): Promise<ConformanceRun> {
  const child = spawn(conformancePath('conformance.test'), suiteFlags(options), {
    env: { ...process.env, KUBECONFIG: kubeconfig },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const end = () => void child.kill();
  signal.addEventListener('abort', end);
  const results = new Map<string, ConformanceResult>();
  const output: string[] = [];
  const code = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  for await (const text of createInterface({ input: child.stdout })) {
    const line = text.replaceAll(MARK, '');
    output.push(line);
    const [, outcome = '', name = '', seconds = '0'] = RESULT.exec(line) ?? [];
    const result = RESULTS[outcome as keyof typeof RESULTS];
    if (result === undefined) continue;
    results.set(name, result);
    options.onResult?.(name, result, Number(seconds));
  }
  const passed = (await code) === 0;
  signal.removeEventListener('abort', end);
  return { results, output: output.join('\n'), passed };
}
