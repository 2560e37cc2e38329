/**
 * A mesh for tests on its own addresses: a configuration directory or API server, the real `ctl-discovery`, and real
 * Envoys without redirection (interception NONE), each at an address where its Sidecar opens the listeners.
 */
import { join } from 'node:path';
import type { JsonObject } from '../../../src/protobuf/index.ts';
import {
  type Balancer,
  claimNumber,
  type Discovery,
  type DiscoveryOptions,
  type Envoy,
  eventually,
  type Owner,
  startDiscovery,
  startEnvoy,
  tempDir,
} from '../../harness/index.ts';
import { startClusterSource } from './cluster-config.ts';
import { type ConfigDir, configDir, type Document, NAMESPACE, resource } from './config.ts';

export type Mode = 'sotw' | 'delta';
export const MODES = ['sotw', 'delta'] as const satisfies readonly Mode[];

export interface ProxyOptions {
  readonly name: string;
  /** Default `sidecar`. */
  readonly type?: 'sidecar' | 'router';
  readonly address: string;
  /** Further addresses of its node; default none. */
  readonly moreAddresses?: readonly string[];
  readonly mode: Mode;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Further metadata of its node. */
  readonly metadata?: JsonObject;
  readonly waitLive?: boolean;
  readonly logLevel?: 'warning' | 'info' | 'debug';
  /** The Envoy binary; default the newest. */
  readonly program?: string;
  /** Where it resolves names; default: as the machine does. */
  readonly dnsServer?: { readonly address: string; readonly port: number };
}

/** An Envoy of the mesh. */
export interface MeshProxy extends Envoy {
  readonly name: string;
  readonly address: string;
  readonly mode: Mode;
  /** `<name>.<namespace>`, its name in the debug interface. */
  readonly workload: string;
}

export interface TestMesh {
  readonly config: ConfigDir;
  /** Path of the file by which ctl-discovery finds its API server. Undefined with a directory. */
  readonly kubeconfig: string | undefined;
  /** The current process; another one after `restart`. */
  discovery(): Discovery;
  /** Starts ctl-discovery again at the same addresses; the earlier process must have ended. */
  restart(): Promise<Discovery>;
  /** Starts another ctl-discovery that reads the same configuration, with an authority of its own. */
  startReplica(options?: Pick<DiscoveryOptions, 'env' | 'flags' | 'kubeconfig'>): Promise<Discovery>;
  startProxy(options: ProxyOptions): Promise<MeshProxy>;
  /** Address number `last` (1 to 254) of this mesh. */
  address(last: number): string;
}

/**
 * Whether the configuration of meshes is in a Kubernetes API server instead of a directory. Set by the files of
 * `test/kubernetes/e2e`.
 */
export const inCluster = (): boolean => process.env.MESH_TEST_SOURCE === 'kubernetes';

/**
 * 127.64.0.0/10 and 127.128.0.0/10 in networks of 24 bits: loopback addresses that nothing else uses.
 */
const NETWORKS = { from: 64 * 256, end: 192 * 256 };
/**
 * Of 10.244.0.0/16, which is local where tests of API servers run: they refuse endpoints with loopback addresses. Those
 * below are for tests that write addresses themselves.
 */
const CLUSTER_NETWORKS = { from: 16, end: 256 };
let prefix: string | undefined;

function claimPrefix(): string {
  if (inCluster()) return `10.244.${claimNumber('pods', CLUSTER_NETWORKS.from, CLUSTER_NETWORKS.end)}`;
  const network = claimNumber('network', NETWORKS.from, NETWORKS.end);
  return `127.${network >> 8}.${network & 255}`;
}

/**
 * The network of this process, which no other test process of the machine uses at the same time: tests of different
 * files, and of copies of the suite, may then listen on the same ports.
 */
function ownNetwork(): (last: number) => string {
  prefix ??= claimPrefix();
  return (last) => `${prefix}.${last}`;
}

let meshes = 0;
/** Number of addresses of one mesh of a process; tests count from 1. */
const ADDRESSES_PER_MESH = 50;

export interface MeshOptions extends Omit<DiscoveryOptions, 'configDir' | 'kubeconfig' | 'ports'> {
  /** File name without ending → documents, written before ctl-discovery starts. */
  readonly files?: Readonly<Record<string, readonly Document[]>>;
  /** Proxies connect to it. Default: to ctl-discovery. */
  readonly balancer?: Balancer;
}

/** A mesh with addresses that are known before it starts, so that its configuration can name them. */
export function planMesh(): (last: number) => string {
  const address = ownNetwork();
  const first = (meshes++ % 5) * ADDRESSES_PER_MESH;
  return (last) => address(first + last);
}

/** Where the configuration of a mesh is, and how ctl-discovery is told. */
async function startSource(
  owner: Owner,
): Promise<Pick<DiscoveryOptions, 'configDir' | 'kubeconfig'> & { readonly config: ConfigDir }> {
  if (inCluster()) {
    const { config, kubeconfig } = await startClusterSource(owner);
    return { config, kubeconfig };
  }
  const config = configDir(await tempDir(owner));
  return { config, configDir: config.path };
}

export async function startMesh(
  owner: Owner,
  address: (last: number) => string,
  options: MeshOptions,
): Promise<TestMesh> {
  const { files = {}, balancer, ...rest } = options;
  const { config, ...source } = await startSource(owner);
  for (const [name, documents] of Object.entries(files)) await config.apply(name, ...documents);
  let discovery = await startDiscovery(owner, { ...rest, ...source });
  balancer?.use(discovery.ports.grpc);
  return {
    config,
    kubeconfig: source.kubeconfig,
    address,
    discovery: () => discovery,
    async restart() {
      discovery = await startDiscovery(owner, { ...rest, ...source, ports: discovery.ports });
      return discovery;
    },
    async startReplica({ env, ...changes } = {}) {
      const folder = await tempDir(owner);
      const own = { SELF_SIGNED_CA_DIR: join(folder, 'ca'), CTL_STATE_DIR: join(folder, 'state') };
      return await startDiscovery(owner, { ...rest, ...source, ...changes, env: { ...rest.env, ...own, ...env } });
    },
    startProxy: (proxy) => startProxy(owner, balancer?.port ?? discovery.ports.grpc, proxy),
  };
}

export async function startProxy(owner: Owner, adsPort: number, options: ProxyOptions): Promise<MeshProxy> {
  const { name, type = 'sidecar', address, mode, namespace = NAMESPACE, labels = { app: name } } = options;
  const { waitLive = true, logLevel = 'warning', moreAddresses = [], program, dnsServer } = options;
  const envoy = await startEnvoy(owner, {
    id: `${type}~${address}~${name}.${namespace}~${namespace}.svc.cluster.local`,
    metadata: {
      NAMESPACE: namespace,
      LABELS: labels,
      INTERCEPTION_MODE: 'NONE',
      INSTANCE_IPS: [address, ...moreAddresses].join(','),
      CLUSTER_ID: 'Orchestrator',
      ...options.metadata,
    },
    mode,
    adsPort,
    waitLive,
    logLevel,
    ...(program !== undefined && { program }),
    ...(dnsServer !== undefined && { dnsServer }),
  });
  return { ...envoy, name, address, mode, workload: `${name}.${namespace}` };
}

export interface EgressPort {
  readonly number: number;
  readonly protocol: string;
  /** Default: everything. */
  readonly hosts?: readonly string[];
}

export interface SidecarFields {
  readonly address: string;
  readonly namespace?: string;
  readonly egress?: readonly EgressPort[];
  readonly ingress?: readonly { readonly number: number; readonly protocol: string; readonly to: string }[];
  /** Default REGISTRY_ONLY: requests without a route are answered with 502. */
  readonly policy?: 'REGISTRY_ONLY' | 'ALLOW_ANY';
}

/** The Sidecar of the workload `app: <name>`: listeners at its own address, bound by Envoy itself. */
export function sidecar(name: string, fields: SidecarFields): Document {
  const { address, namespace = NAMESPACE, egress = [], ingress = [], policy = 'REGISTRY_ONLY' } = fields;
  const listener = ({ number, protocol }: { number: number; protocol: string }) => ({
    port: { number, protocol, name: `${protocol.toLowerCase()}-${number}` },
    bind: address,
    captureMode: 'NONE',
  });
  return resource(
    'Sidecar',
    name,
    {
      workloadSelector: { labels: { app: name } },
      outboundTrafficPolicy: { mode: policy },
      ...(ingress.length === 0
        ? {}
        : { ingress: ingress.map(({ to, ...port }) => ({ ...listener(port), defaultEndpoint: to })) }),
      egress:
        egress.length === 0
          ? [{ hosts: ['~/*'] }]
          : egress.map(({ hosts = ['*/*'], ...port }) => ({ ...listener(port), hosts })),
    },
    namespace,
  );
}

/** One entry of `/debug/syncz`. */
export type SyncStatus = Readonly<Record<string, unknown>> & { readonly proxy: string };

export async function syncStatus(discovery: Discovery): Promise<readonly SyncStatus[]> {
  return (await discovery.http('/debug/syncz')).json() as SyncStatus[];
}

/** Waits until every named proxy has acknowledged everything and no push is pending. */
export async function waitSynced(
  discovery: Discovery,
  proxies: readonly { readonly workload: string }[],
): Promise<void> {
  await eventually(
    async () => {
      const all = await syncStatus(discovery);
      for (const { workload } of proxies) {
        const status = all.find(({ proxy }) => proxy === workload);
        if (status === undefined) throw new Error(`${workload} is not connected`);
        for (const type of ['cluster', 'listener'] as const) {
          const state = status[`${type}_state`];
          if (state !== 'SYNCED') throw new Error(`${workload}: ${type} ${String(state)}`);
        }
        for (const type of ['route', 'endpoint'] as const) {
          const state = status[`${type}_state`];
          if (state !== 'SYNCED' && state !== 'NOT SENT') throw new Error(`${workload}: ${type} ${String(state)}`);
        }
      }
    },
    { timeoutMs: 30_000 },
  );
}
