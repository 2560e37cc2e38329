/**
 * A mesh as in production, in network namespaces that a bridge joins: one has ctl-discovery with its certificate
 * authority. Each workload has a namespace with an application and, if it is proxied, `ctl-agent proxy` with a real
 * Envoy and redirection by `ctl-agent mesh-iptables`. Tokens come from a local issuer. Proxies and control plane use
 * TLS.
 *
 *   web.foo ─ application ⇄ Envoy ─┐
 *   plain.legacy ─ application ────┼─ bridge ─ ctl-discovery :15012
 *   …                              ┘
 */
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { issueToken } from '../../../src/security/local-issuer.ts';
import {
  type Agent,
  type Child,
  createNetwork,
  eventually,
  type Namespace,
  type Network,
  type Owner,
  programEnv,
  programFile,
  redirectTraffic,
  startAgent,
  startChild,
  tempDir,
} from '../../harness/index.ts';
import { type ConfigDir, configDir, type Document, endpoints, pod, service } from './config.ts';

/** The user of agents and their Envoys, whose traffic is not redirected. */
const PROXY_UID = 1337;
export const TRUST_DOMAIN = 'cluster.local';
const AUDIENCE = 'mesh-ca';
const TOKEN_TTL_MS = 3_600_000;
const DISCOVERY = programFile('ctl-discovery');
const APPLICATION = join(import.meta.dirname, '../../harness/workload-main.ts');

/** The ports of every application. Service ports differ from container ports, which policies must distinguish. */
export const PORTS = {
  http: { protocol: 'http', container: 8080, service: 80 },
  grpc: { protocol: 'http2', container: 8081, service: 81 },
  /** The server speaks first. */
  tcp: { protocol: 'tcp', container: 9000, service: 90 },
  /** The client speaks first. */
  bytes: { protocol: 'quiet', container: 9001, service: 91 },
} as const;
export type PortName = keyof typeof PORTS;

const SERVICE_PORT_NAMES: Readonly<Record<PortName, string>> = {
  http: 'http',
  grpc: 'grpc',
  tcp: 'tcp-greeting',
  bytes: 'tcp-bytes',
};

/** A port of every application that no service names. */
export const UNBOUND_PORT = 8088;
/** The same for HTTP/2 in plain text. */
export const UNBOUND_HTTP2_PORT = 8089;

export interface TokenOptions {
  /** Default: that of the mesh's authority. */
  readonly audience?: string;
  /** Default: the workload's own name. */
  readonly serviceAccount?: string;
  /** True: it has expired already. */
  readonly expired?: boolean;
}

export interface WorkloadOptions {
  readonly name: string;
  readonly namespace: string;
  readonly proxied: boolean;
  /** The type of its proxy; default `sidecar`. No traffic is redirected to a `router`. */
  readonly role?: 'sidecar' | 'router';
  /** Runs in its namespace before anything is started there. */
  readonly prepare?: (netns: Namespace) => Promise<unknown>;
  /** How connections reach its proxy; default REDIRECT. */
  readonly interception?: 'REDIRECT' | 'TPROXY';
  /** Whether Envoy may open transparent sockets; default: where the interception needs it. */
  readonly transparent?: boolean;
  /** Its first token; default: valid for one hour. */
  readonly token?: TokenOptions;
  /** Environment of the agent, and of `mesh-iptables`. */
  readonly env?: Readonly<Record<string, string>>;
  /** Flags of the agent. */
  readonly flags?: readonly string[];
  /** False returns before the agent is ready. */
  readonly waitReady?: boolean;
  /** Its machine has no IPv4 address besides loopback. */
  readonly ipv6Only?: boolean;
  /** Its documents; default: a Pod with a Service and Endpoints. */
  readonly documents?: (netns: Namespace) => readonly Document[];
}

export interface Workload {
  /** `web.foo`. */
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  readonly proxied: boolean;
  /** `spiffe://…`, of its service account, which has its name. */
  readonly identity: string;
  readonly netns: Namespace;
  /** Address of its service. */
  readonly serviceAddress: string;
  readonly tokenFile: string;
  /** Undefined for a workload without proxy. */
  readonly agent: Agent | undefined;
}

export interface WorldOptions {
  /** Environment of ctl-discovery. */
  readonly env?: Readonly<Record<string, string>>;
  /** Flags of ctl-discovery. */
  readonly flags?: readonly string[];
  readonly files?: Readonly<Record<string, readonly Document[]>>;
  /** Runs before ctl-discovery is started. */
  readonly prepare?: (network: Network, control: Namespace) => Promise<unknown>;
}

export interface IdentityWorld {
  readonly config: ConfigDir;
  readonly network: Network;
  readonly control: Namespace;
  /** The directory of the authority's key and roots. */
  readonly caDir: string;
  /** The directory of the last good versions of policies. */
  readonly stateDir: string;
  addWorkload(options: WorkloadOptions): Promise<Workload>;
  /** Starts another agent for a workload's namespace, as after a restart of its pod. */
  startAgent(workload: Omit<Workload, 'agent'>, options?: WorkloadOptions): Promise<Agent>;
  /** Writes a new token into a workload's file. */
  writeToken(workload: Pick<Workload, 'name' | 'namespace' | 'tokenFile'>, options?: TokenOptions): Promise<void>;
  /** Ends ctl-discovery. */
  stopDiscovery(): Promise<void>;
  startDiscovery(env?: Readonly<Record<string, string>>, flags?: readonly string[]): Promise<void>;
  discoveryOutput(): string;
  /** GET at the HTTP port of ctl-discovery. */
  http(path: string): Promise<string>;
  metrics(): Promise<string>;
}

/** Starts the control plane; workloads are added then. Everything ends with the owner. */
export async function startIdentityWorld(owner: Owner, options: WorldOptions = {}): Promise<IdentityWorld> {
  const network = await createNetwork(owner);
  const control = await network.addNamespace('control');
  await options.prepare?.(network, control);
  const folder = await tempDir(owner);
  // Agents run as another user, and read the root certificate.
  await chmod(folder, 0o755);
  const [caDir, issuerDir, stateDir] = [join(folder, 'ca'), join(folder, 'issuer'), join(folder, 'state')];
  await mkdir(caDir, { mode: 0o755 });
  const config = configDir(join(folder, 'config'));
  await mkdir(config.path);
  for (const [name, documents] of Object.entries(options.files ?? {})) await config.apply(name, ...documents);

  let discovery: Child | undefined;
  const startDiscovery: IdentityWorld['startDiscovery'] = async (env = {}, flags = []) => {
    discovery = await startDiscoveryIn(
      owner,
      control,
      ['--configDir', config.path, ...(options.flags ?? []), ...flags],
      {
        SELF_SIGNED_CA_DIR: caDir,
        CTL_STATE_DIR: stateDir,
        ROOT_CA_DIR: join(folder, 'no-plugged-root'),
        LOCAL_TOKEN_ISSUER_DIR: issuerDir,
        ...options.env,
        ...env,
      },
    );
  };
  const writeToken: IdentityWorld['writeToken'] = async ({ name, namespace, tokenFile }, token = {}) => {
    const { audience = AUDIENCE, serviceAccount = name, expired = false } = token;
    const identity = { namespace, serviceAccount };
    const now = Date.now() - (expired ? 2 * TOKEN_TTL_MS : 0);
    const text = await issueToken({
      directory: issuerDir,
      identity,
      audience,
      lifetimeSeconds: TOKEN_TTL_MS / 1000,
      now,
    });
    // In one step: an agent may read it at any time.
    await writeFile(`${tokenFile}.new`, text, { mode: 0o644 });
    await rename(`${tokenFile}.new`, tokenFile);
  };
  // Its key pair must be there before ctl-discovery looks for it.
  await writeToken({ name: 'first', namespace: 'default', tokenFile: join(folder, 'first-token') });
  await startDiscovery();

  const startAgentOf: IdentityWorld['startAgent'] = (workload, agentOptions) =>
    startAgentIn(owner, workload, control, caDir, agentOptions);
  let workloads = 0;
  return {
    config,
    network,
    control,
    caDir,
    stateDir,
    writeToken,
    startDiscovery,
    startAgent: startAgentOf,
    async addWorkload(wanted) {
      const { name, namespace, proxied, role = 'sidecar', interception = 'REDIRECT' } = wanted;
      const number = ++workloads;
      const netns = await network.addNamespace(`${name.slice(0, 6)}${number}`);
      if (wanted.ipv6Only === true) await netns.run('ip', '-4', 'addr', 'flush', 'dev', 'eth0');
      await wanted.prepare?.(netns);
      const workload = {
        id: `${name}.${namespace}`,
        name,
        namespace,
        proxied,
        identity: `spiffe://${TRUST_DOMAIN}/ns/${namespace}/sa/${name}`,
        netns,
        serviceAddress: `10.96.0.${number}`,
        tokenFile: join(folder, `token-${number}`),
      };
      await writeToken(workload, wanted.token);
      await config.apply(`workload-${workload.id}`, ...(wanted.documents?.(netns) ?? documentsOf(workload)));
      await Promise.all([
        startApplication(workload),
        proxied && role === 'sidecar'
          ? redirectTraffic(netns, { proxyUid: PROXY_UID, mode: interception, env: wanted.env ?? {} })
          : undefined,
      ]);
      return { ...workload, agent: proxied ? await startAgentOf(workload, wanted) : undefined };
    },
    async stopDiscovery() {
      await discovery?.stop();
    },
    discoveryOutput: () => discovery?.output() ?? '',
    http: (path) => control.run('curl', '-sS', '--fail', '--max-time', '20', `http://127.0.0.1:8080${path}`),
    metrics: () => control.run('curl', '-sS', '--fail', '--max-time', '20', 'http://127.0.0.1:15014/metrics'),
  };
}

/** Far longer than a start takes, even when other tests use the cores. */
const START_TIMEOUT_MS = 60_000;

async function startDiscoveryIn(
  owner: Owner,
  netns: Namespace,
  flags: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Child> {
  const addresses = [
    '--grpcAddr',
    ':15010',
    '--secureGRPCAddr',
    ':15012',
    '--httpAddr',
    ':8080',
    '--monitoringAddr',
    ':15014',
  ];
  const argv = [process.execPath, DISCOVERY, 'discovery', ...addresses, ...flags];
  const [command = '', ...args] = netns.command(argv);
  const child = await startChild(owner, { name: 'ctl-discovery', command, args, env: { ...programEnv(), ...env } });
  await eventually(
    () => {
      child.assertRunning();
      return netns.run('curl', '-sS', '--fail', '--max-time', '2', 'http://127.0.0.1:8080/ready');
    },
    { timeoutMs: START_TIMEOUT_MS, intervalMs: 100, what: 'ctl-discovery is ready' },
  );
  return child;
}

type WorkloadFacts = Omit<Workload, 'agent'>;

/**
 * Pod, service and endpoints of a workload. The label declares that its proxy accepts mutual TLS, as injection would
 * write it.
 */
function documentsOf({ name, namespace, proxied, netns, serviceAddress }: WorkloadFacts): Document[] {
  const labels = { app: name, ...(proxied ? { 'security.mesh.io/tlsMode': 'mesh' } : {}) };
  const names = Object.keys(PORTS) as PortName[];
  return [
    pod(name, { namespace, labels, ip: netns.address, serviceAccount: name }),
    service(name, {
      namespace,
      clusterIP: serviceAddress,
      selector: { app: name },
      ports: names.map((port) => ({
        name: SERVICE_PORT_NAMES[port],
        port: PORTS[port].service,
        targetPort: PORTS[port].container,
      })),
    }),
    endpoints(
      name,
      { [name]: netns.address },
      names.map((port) => ({ name: SERVICE_PORT_NAMES[port], port: PORTS[port].container })),
      namespace,
    ),
  ];
}

async function startApplication({ id, netns }: WorkloadFacts): Promise<void> {
  const specs = Object.values(PORTS).map(({ protocol, container }) => `${protocol}:${container}`);
  const application = await netns.start(`application ${id}`, [
    process.execPath,
    APPLICATION,
    id,
    ...specs,
    `http:${UNBOUND_PORT}`,
    `http2:${UNBOUND_HTTP2_PORT}`,
  ]);
  await eventually(() => {
    application.assertRunning();
    if (!application.output().includes('ready')) throw new Error(`${id} does not listen yet`);
  });
}

async function startAgentIn(
  owner: Owner,
  workload: WorkloadFacts,
  control: Namespace,
  caDir: string,
  options: Partial<WorkloadOptions> = {},
): Promise<Agent> {
  const { name, namespace, netns, tokenFile } = workload;
  const { role = 'sidecar', interception = 'REDIRECT', ipv6Only = false } = options;
  const agent = await startAgent(owner, {
    name,
    role,
    podNamespace: namespace,
    labels: { app: name },
    netns,
    uid: PROXY_UID,
    ...(ipv6Only ? { address: netns.address6 } : {}),
    discoveryAddress: `${ipv6Only ? `[${control.address6}]` : control.address}:15012`,
    transparent: options.transparent ?? interception === 'TPROXY',
    proxyConfig: { interceptionMode: interception },
    waitReady: false,
    flags: options.flags ?? [],
    env: {
      SERVICE_ACCOUNT: name,
      CA_TOKEN_FILE: tokenFile,
      CA_ROOT_CA: join(caDir, 'root-cert.pem'),
      ...options.env,
    },
  });
  if (options.waitReady !== false) await agent.waitReady(START_TIMEOUT_MS);
  return agent;
}

/** The authority's current roots, PEM. */
export function rootsOf(world: Pick<IdentityWorld, 'caDir'>): Promise<string> {
  return readFile(join(world.caDir, 'root-cert.pem'), 'utf8');
}

/** An additional service in the workloads' namespace with all of them as endpoints. */
export function sharedService(
  name: string,
  clusterIP: string,
  workloads: readonly Workload[],
  ports: readonly { readonly name: string; readonly port: number; readonly targetPort: number }[],
): Document[] {
  const namespace = workloads[0]?.namespace ?? 'default';
  return [
    service(name, { namespace, clusterIP, ports }),
    endpoints(
      name,
      Object.fromEntries(workloads.map((each) => [each.name, each.netns.address])),
      ports.map((port) => ({ name: port.name, port: port.targetPort })),
      namespace,
    ),
  ];
}
