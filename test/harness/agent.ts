/** `ctl-agent proxy` in a process of its own, from its sources, with the real Envoy as its child. */
import { chown, readFile } from 'node:fs/promises';
import { programFile } from './built.ts';
import { type Child, type Exit, startChild } from './child.ts';
import { asUser, envoyPath } from './envoy.ts';
import { eventually } from './eventually.ts';
import { freePorts, tempDir } from './files.ts';
import { type Response, request } from './http.ts';
import type { Namespace } from './netns.ts';
import type { Owner } from './owner.ts';

export interface AgentPorts {
  readonly admin: number;
  readonly status: number;
  readonly readiness: number;
  readonly prometheus: number;
}

/** The default ports, for agents that have a network namespace to themselves. */
export const STANDARD_AGENT_PORTS: AgentPorts = { admin: 15000, status: 15020, readiness: 15021, prometheus: 15090 };

export interface AgentOptions {
  readonly name: string;
  /** Default `sidecar`. */
  readonly role?: 'sidecar' | 'router';
  /** The workload's own address; default that of the namespace, else 127.0.0.1. */
  readonly address?: string;
  /**
   * `host:port`; a port other than 15012 that is plain text needs `controlPlaneAuthPolicy: 'NONE'` in `proxyConfig`.
   */
  readonly discoveryAddress: string;
  /** Default `default`. */
  readonly podNamespace?: string;
  /** Default `app: <name>`. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Merged over `interceptionMode: NONE` outside a namespace, `concurrency: 1`, and the ports. */
  readonly proxyConfig?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
  /** Default: free ones, and inside a namespace the standard ones. */
  readonly ports?: AgentPorts;
  /** Runs the agent inside this namespace. */
  readonly netns?: Namespace;
  /** Runs the agent, and with it Envoy, as this user; needs root. */
  readonly uid?: number;
  /** A folder that the agent finds as that of its Pod's service account; needs root. */
  readonly serviceAccount?: string;
  /** Envoy may open transparent sockets, which redirection by TPROXY needs. */
  readonly transparent?: boolean;
  /** Relative paths, such as that of the file of the Pod's labels, are in this folder. Default: that of the test. */
  readonly cwd?: string;
  /** Default: that of `programFile`. */
  readonly program?: string;
  /** `false` returns as soon as the process runs. Default true. */
  readonly waitReady?: boolean;
}

export interface Agent {
  readonly name: string;
  readonly ports: AgentPorts;
  readonly pid: number;
  /** The folder of the bootstrap and the sockets. */
  readonly folder: string;
  /** Process id of the agent's Envoy; undefined when none runs. */
  envoyPid(): Promise<number | undefined>;
  /** GET of a path on one of its ports; outside a namespace only. */
  http(port: keyof AgentPorts, path: string, method?: string): Promise<Response>;
  /** GET at Envoy's admin interface; throws unless the answer is 200. */
  admin(path: string): Promise<string>;
  /** Status of `/healthz/ready`. */
  readiness(): Promise<number>;
  waitReady(timeoutMs?: number): Promise<void>;
  output(): string;
  readonly exited: Promise<Exit>;
  signal(signal: NodeJS.Signals): void;
  stop(): Promise<Exit>;
  kill(): Promise<Exit>;
}

/** Ports for an agent that are free now. */
export async function agentPorts(): Promise<AgentPorts> {
  const [admin = 0, status = 0, readiness = 0, prometheus = 0] = await freePorts(4);
  return { admin, status, readiness, prometheus };
}

/** Starts an agent. The agent and its Envoy end with their owner. */
export async function startAgent(owner: Owner, options: AgentOptions): Promise<Agent> {
  const { name, role = 'sidecar', netns, podNamespace = 'default', labels = { app: name } } = options;
  const ports = options.ports ?? (netns === undefined ? await agentPorts() : STANDARD_AGENT_PORTS);
  const folder = await tempDir(owner);
  if (options.uid !== undefined) await chown(folder, options.uid, options.uid);
  const proxyConfig = {
    ...(netns === undefined ? { interceptionMode: 'NONE' } : {}),
    concurrency: 1,
    discoveryAddress: options.discoveryAddress,
    configPath: folder,
    proxyAdminPort: ports.admin,
    statusPort: ports.status,
    ...options.proxyConfig,
  };
  const env: Record<string, string> = {
    ENVOY_PATH: envoyPath(),
    POD_NAME: name,
    POD_NAMESPACE: podNamespace,
    INSTANCE_IP: options.address ?? netns?.address ?? '127.0.0.1',
    MESH_METAJSON_LABELS: JSON.stringify(labels),
    ENVOY_STATUS_PORT: String(ports.readiness),
    ENVOY_PROMETHEUS_PORT: String(ports.prometheus),
    TERMINATION_DRAIN_DURATION_SECONDS: '1',
    PROXY_CONFIG: JSON.stringify(proxyConfig),
    ...options.env,
  };
  const { program = programFile('ctl-agent'), flags = [] } = options;
  const own = asUser([process.execPath, program, 'proxy', role, ...flags], options);
  const argv = options.serviceAccount === undefined ? own : withServiceAccount(options.serviceAccount, own);
  const [command = '', ...args] = netns === undefined ? argv : netns.command(argv);
  const { cwd } = options;
  const child = await startChild(owner, { name: `agent ${name}`, command, args, env, ...(cwd && { cwd }) });
  const agent = controlled(child, name, ports, folder, netns);
  // The harness kills a process that does not end; an Envoy in its own process group would remain.
  owner.after(() => killEnvoy(agent));
  if (options.waitReady !== false) await agent.waitReady();
  return agent;
}

/** The command line in a mount namespace of its own, in which the folder is at the path of Kubernetes. */
function withServiceAccount(folder: string, argv: readonly string[]): readonly string[] {
  const target = '/run/secrets/kubernetes.io/serviceaccount';
  const script = `mount -t tmpfs none /run; mkdir -p ${target}; mount --bind "$0" ${target}; exec "$@"`;
  return ['unshare', '--mount', 'sh', '-ec', script, folder, ...argv];
}

async function killEnvoy(agent: Agent): Promise<void> {
  const pid = lastEnvoyPid(agent.output());
  if (pid === undefined) return;
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  // Another process may have received the process id since.
  if (command.includes(agent.folder)) process.kill(pid, 'SIGKILL');
}

function lastEnvoyPid(output: string): number | undefined {
  const pid = [...output.matchAll(/Envoy has started\t.*?\bpid=(\d+)/g)].at(-1)?.[1];
  return pid === undefined ? undefined : Number(pid);
}

function controlled(
  child: Child,
  name: string,
  ports: AgentPorts,
  folder: string,
  netns: Namespace | undefined,
): Agent {
  const http: Agent['http'] = (port, path, method = 'GET') => request({ port: ports[port], path, method });
  const curl = (inside: Namespace, port: number, path: string, ...more: readonly string[]) =>
    inside.run('curl', '-sS', '--max-time', '15', ...more, `http://127.0.0.1:${port}${path}`);
  const readiness = async (): Promise<number> => {
    if (netns === undefined) return (await http('readiness', '/healthz/ready')).status;
    return Number(await curl(netns, ports.readiness, '/healthz/ready', '-o', '/dev/null', '-w', '%{http_code}'));
  };
  return {
    name,
    ports,
    folder,
    pid: child.pid,
    http,
    readiness,
    async envoyPid() {
      const pid = lastEnvoyPid(child.output());
      const command = pid === undefined ? '' : await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      return command.includes(folder) ? pid : undefined;
    },
    async admin(path) {
      if (netns !== undefined) return curl(netns, ports.admin, path, '--fail');
      const answer = await http('admin', path);
      if (answer.status !== 200) throw new Error(`${name}: ${path} answered ${answer.status}: ${answer.body}`);
      return answer.body;
    },
    async waitReady(timeoutMs = 30_000) {
      const ready = async () => {
        child.assertRunning();
        const status = await readiness();
        if (status !== 200) throw new Error(`/healthz/ready answered ${status}`);
      };
      await eventually(ready, { timeoutMs, what: `agent ${name} is ready` });
    },
    output: child.output,
    exited: child.exited,
    signal: child.signal,
    stop: child.stop,
    kill: child.kill,
  };
}
